"""Tests whether rows still come from the distribution of the calibration rows.

A guarantee holds as long as rows are exchangeable. A conformal martingale bets against
that: its wealth starts at 1 and stays there on average while rows are exchangeable. By
Ville's inequality, the probability that it ever reaches 1 / rate is at most the rate,
however long it is watched (Vovk, Gammerman and Shafer, "Algorithmic Learning in a
Random World", 2005; the bets are the simple jumper of Vovk et al., "Retrain or not
retrain: conformal test martingales for change-point detection", 2021).
"""

import bisect
import math

import numpy as np

from bhn_tf.arguments import check_probability
from bhn_tf.conformal.calibrated import Calibrated
from bhn_tf.random import stateless_seed

_BETS = np.array([-1.0, 0.0, 1.0])
# Share of the wealth that is spread evenly over the bets after each row.
_JUMP = 0.01


class ConformalMartingale:
    """Bets against the exchangeability of scores, one after another.

    The p-value of a score is its rank among all scores before it, calibration and
    later ones, with ties broken at random: only then are p-values independent and
    uniform, even with few calibration rows.

    Args:
        scores: Scores of calibration rows, [n]; higher is stranger. NaN counts as
            stranger than all numbers.
        seed: Seed for breaking ties, a non-negative integer.

    Attributes:
        log_wealth: log of the wealth from bets on p-values that are too small or too
            large.

    Example:
        >>> martingale = ConformalMartingale(np.arange(100.0))
        >>> martingale.update(np.full(30, 1000.0)).shape
        (30,)
        >>> martingale.log_wealth > math.log(100)
        True
    """

    def __init__(self, scores, seed: int = 0):
        scores = _numbers(scores)
        if not scores.size:
            raise ValueError("Expected the score of at least one calibration row.")
        self._seen = sorted(scores.tolist())
        stateless_seed(seed)
        self._rng = np.random.default_rng(seed)
        self._wealth = np.full(3, 1 / 3)
        self.log_wealth = 0.0

    def update(self, scores) -> np.ndarray:
        """Bets on further scores, in their order.

        Args:
            scores: [rows].

        Returns:
            log of the wealth after each, [rows].
        """
        return np.array([self._bet(score) for score in _numbers(scores).tolist()])

    def _bet(self, score):
        first = bisect.bisect_left(self._seen, score)
        last = bisect.bisect_right(self._seen, score)
        above = len(self._seen) - last
        # The score counts among its own ties.
        ties = self._rng.uniform() * (last - first + 1)
        p_value = (above + ties) / (len(self._seen) + 1)
        self._seen.insert(last, score)
        spread = (1 - _JUMP) * self._wealth + _JUMP * self._wealth.mean()
        wealth = spread * (1 + _BETS * (p_value - 0.5))
        total = wealth.sum()
        self.log_wealth += math.log(total)
        # Kept as shares of the wealth, since the wealth itself may overflow.
        self._wealth = wealth / total
        return self.log_wealth


class DriftMonitor:
    """Watches the rows that a calibrated model is asked about.

    Labels are not needed: rows are compared by how unsure the model is of them. A drift
    that leaves this unchanged is not seen.

    Args:
        calibrated: A `Calibrated` model.
        false_alarm_rate: The probability that it ever raises an alarm while rows are
            exchangeable with the calibration rows.
        score: A key of `predict_uncertainty`; `None` for "predictive_entropy" of
            classes and "std" of numbers.
        seed: Seed for breaking ties, a non-negative integer.
        output: Name of the output to watch, if there are several.

    Attributes:
        num_rows: Number of rows watched so far.
        alarm_at: Number of the row, from 1, that raised the alarm; `None` before.

    Raises:
        TypeError: If the model is not calibrated.
        ValueError: If the rate is not a probability, there is no such score or output,
            or the seed is no seed.

    Example:
    ```python
    calibrated = bhn_tf.conformal.calibrate(model, x, y)
    monitor = bhn_tf.conformal.DriftMonitor(calibrated, false_alarm_rate=0.01)
    monitor.update(x_new)  # whether rows have drifted
    ```
    """

    def __init__(
        self,
        calibrated,
        false_alarm_rate: float = 0.01,
        score: str | None = None,
        seed: int = 0,
        output: str | None = None,
    ):
        if not isinstance(calibrated, Calibrated):
            raise TypeError(
                "Expected a calibrated model, whose rows are compared with those of "
                f"its calibration, got {type(calibrated).__name__}. Make one: "
                "`bhn_tf.conformal.calibrate(model, x, y)`."
            )
        check_probability("false_alarm_rate", false_alarm_rate)
        calibration = calibrated.of_output(output)
        if score is None:
            score = "std" if calibration.makes_intervals else "predictive_entropy"
        self._calibrated, self._score, self._output = calibrated, score, output
        self._martingale = ConformalMartingale(calibration.doubts(score), seed)
        self._limit = -math.log(false_alarm_rate)
        self.num_rows = 0
        self.alarm_at: int | None = None

    @property
    def alarm(self) -> bool:
        """Whether the alarm was raised; it never ends."""
        return self.alarm_at is not None

    @property
    def evidence(self) -> float:
        """Evidence that rows have drifted: the natural log of the bets' wealth.

        It begins at 0, and rises or falls with each row. The alarm is raised where it
        first reaches log(1 / `false_alarm_rate`), 4.6 for the default rate of 0.01, and
        stays if it falls again.
        """
        return self._martingale.log_wealth

    def update(self, x, batch_size: int | None = None) -> bool:
        """Watches further rows, in their order.

        Args:
            x: Inputs, rows first.
            batch_size: As in `predict`.

        Returns:
            Whether the alarm was raised, by these rows or earlier.
        """
        answers = self._calibrated.predict_uncertainty(x, batch_size, verbose=0)
        names = self._calibrated.likelihood.output_names
        if names:
            output = names[0] if self._output is None else self._output
            is_named = isinstance(answers, dict)
            answers = answers[output if is_named else names.index(output)]
        scores = answers[self._score]
        wealth = self._martingale.update(scores.reshape(len(scores), -1).mean(axis=1))
        reached = np.flatnonzero(wealth >= self._limit)
        if reached.size and self.alarm_at is None:
            self.alarm_at = self.num_rows + int(reached[0]) + 1
        self.num_rows += len(wealth)
        return self.alarm


def _numbers(scores):
    scores = np.ravel(scores).astype("float64")
    return np.where(np.isnan(scores), math.inf, scores)
