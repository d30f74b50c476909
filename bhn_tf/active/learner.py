"""The loop of active learning: train, ask for labels, train again."""

import contextlib
import copy
import secrets
from collections.abc import Callable, Mapping

import keras
import numpy as np
from absl import logging

from bhn_tf.active import arguments, randomness
from bhn_tf.active.acquisition import (
    RANDOM,
    Acquisition,
    highest,
    score_rows,
    which_rows_are_finite,
)
from bhn_tf.active.folder import LearnerFolder
from bhn_tf.active.pool import Pool
from bhn_tf.active.progress import Progress
from bhn_tf.active.trained_model import TrainedModel
from bhn_tf.arguments import check_count


class ActiveLearner:
    """Asks for the labels that a model can learn most from.

    Pool-based active learning as in Gal, Islam and Ghahramani, "Deep Bayesian active
    learning with image data", ICML 2017, and the paper's section "Active Learning": the
    model is trained on the labelled rows, every candidate of the pool gets a score, the
    rows with the highest scores are labelled, and so on. Ids always index the full
    pool; no row is asked for twice.

    All randomness is a function of `seed` and the number of labels, so that the same
    arguments ask for the same ids. Without warm start, a round run alone (with its
    labelled ids as `initial_ids`) equals the round within a longer run. Keras's global
    seed is set before each training.

    Args:
        make_model: Returns a compiled model: a `BayesianHypernet`, one of
            `bhn_tf.baselines`, or any with their `predict*` calls. If it has
            `num_examples`, this is set to the number of labels.
        pool_x: Inputs: an array [rows, ...], a frame (pandas, polars) of numbers, a
            dictionary or list of such, or a finite `tf.data.Dataset` of batches of
            inputs in a fixed order.
        label_fn: Called with ids [n]; returns their labels, an array [n, ...].
        initial_ids: Rows that are labelled first.
        acquisition: "bald", "max_entropy", "variation_ratio", "mean_std", any other
            name of `bhn_tf.uncertainty.SCORES`, "epistemic_std" for a regression,
            "random", or a function of probabilities [rows, S, C] that returns scores
            [rows]. The highest scores are asked for; ties are broken at random. Rows
            with NaN or infinite inputs, or a score of NaN, are never asked for.
        query_size: Rows per round.
        num_samples: S, draws for the scores.
        candidate_size: How many random rows are scored in a round; `None` for all.
        warm_start: True continues from the weights and the optimizer of the previous
            round; False makes a new model for each round; `"first_weights"` starts
            each round from the initial weights of the first one.
        fit_kwargs: Further arguments of `fit`, such as `{"epochs": 50}`; `batch_size`
            also applies to predictions.
        directory: Folder of labels, state and models, for one run at a time. A learner
            with the same arguments and a model of the same architecture continues
            where an earlier one stopped, even if killed: labels are written as soon as
            they are given, and anything else lost is trained again from them.
        seed: A non-negative integer for the same ids each time; `None` for a new one.

    Raises:
        ValueError: If an argument makes no sense, `directory` belongs to another
            configuration, or its files contradict one another.
        RuntimeError: If another run is using `directory`.

    Example:
    ```python
    learner = bhn_tf.active.ActiveLearner(
        make_model, pool_x, lambda ids: ask_a_human(pool_x[ids]), initial_ids=range(20),
        fit_kwargs={"epochs": 50}, directory="labelling", seed=0,
    )
    history = learner.run(10, validation_data=(x_test, y_test))
    print(learner.labelled_ids, history[-1]["metrics"]["val_loss"])
    ```
    """

    def __init__(
        self,
        make_model: Callable[[], keras.Model],
        pool_x,
        label_fn: Callable[[np.ndarray], np.ndarray],
        initial_ids,
        acquisition: Acquisition = "bald",
        query_size: int = 10,
        num_samples: int = 100,
        candidate_size: int | None = None,
        warm_start: bool | str = True,
        fit_kwargs: Mapping | None = None,
        directory=None,
        seed: int | None = None,
    ):
        settings = arguments.checked_settings(
            acquisition, query_size, num_samples, candidate_size, warm_start, seed
        )
        self._label_fn = label_fn
        self._pool = Pool(pool_x)
        self._initial_ids = arguments.checked_ids(initial_ids, self._pool.size)
        self._acquisition = acquisition
        self._query_size = settings["query_size"]
        self._num_samples = settings["num_samples"]
        self._candidate_size = settings["candidate_size"]
        self._fit_kwargs = arguments.checked_fit_kwargs(fit_kwargs)
        self._num_rounds_asked = 0
        #: Why the last `run` ended early; `None` if it did not.
        self.stop_reason: str | None = None
        configuration = {
            "pool_size": self._pool.size,
            "checksum_of_initial_rows": self._pool.fingerprint(self._initial_ids),
            "initial_ids": self._initial_ids.tolist(),
            "fit_kwargs": arguments.as_json(self._fit_kwargs),
            **settings,
        }
        self._progress, self._folder = Progress(configuration), None
        if directory is not None:
            self._folder = LearnerFolder(directory)
            self._progress = self._folder.look(configuration)
        if self._configuration["seed"] is None:
            self._configuration["seed"] = secrets.randbits(31)
        self._seed = self._configuration["seed"]
        self._trained = TrainedModel(
            make_model,
            self._pool,
            self._initial_ids,
            warm_start,
            self._fit_kwargs,
            self._seed,
            self._folder,
        )

    @property
    def _configuration(self) -> dict:
        return self._progress.configuration

    # -- what there is ----------------------------------------------------------------

    @property
    def labelled_ids(self) -> np.ndarray:
        """Indices into the pool in the order in which they were asked for."""
        return self._progress.ids

    @property
    def labels(self) -> np.ndarray | None:
        """The labels of `labelled_ids`; `None` before the first were given."""
        labels = self._progress.labels
        return None if labels is None else labels.copy()

    @property
    def model(self) -> keras.Model | None:
        """The latest model, trained on all labels once `run` has ended.

        `None` before the first training, or if no saved model can be loaded.
        """
        return self._trained.latest(self._progress)

    @property
    def initial_round(self) -> dict | None:
        """The entry of the training on `initial_ids` alone."""
        return copy.deepcopy(next(iter(self._progress.rounds), None))

    @property
    def history(self) -> list[dict]:
        """All rounds: the return values of `run`, one after the other."""
        # Copies, so that the files stay right whatever is done with them.
        return copy.deepcopy(self._progress.rounds[1:])

    # -- the loop ---------------------------------------------------------------------

    def run(self, num_rounds: int, validation_data=None) -> list[dict]:
        """Asks for labels and trains on them, `num_rounds` times.

        The first call begins with `initial_ids`: they are labelled and trained on, and
        `initial_round` has the result. Rounds found in `directory` count as run: start
        a killed program again unchanged, and its calls of `run` return what they would
        have returned.

        Args:
            num_rounds: Rounds of `query_size` labels; 0 only trains on existing labels.
            validation_data: `(x, y)` or a data set on which to `evaluate` the model. It
                does not influence what is learned or asked for.

        Returns:
            One dictionary per round: `round` (1, 2, ...), `ids` asked for,
            `num_labelled` after them, and `metrics` of the model trained on all of
            them: the logs of the last epoch and, with the prefix `val_`, those of
            `validation_data`. There are fewer rounds if the pool is exhausted;
            `stop_reason` then says so.

        Raises:
            ValueError: If the shape of labels does not fit, or, before any labels are
                asked for, if the model is not compiled, has several outputs, has no
                such score as `acquisition`, cannot take the rows of the pool or the
                arrays of `validation_data`, or its `fit` has no such argument as one of
                `fit_kwargs`.
            RuntimeError: If another run is using `directory`.
            bhn_tf.callbacks.Diverged: If training diverges; that round's model is
                discarded, but all labels are kept.
            OSError: If `directory` cannot be written to. This is checked before any
                labels are asked for; later, this learner keeps all labels in memory,
                and another `run` goes on.
        """
        check_count("num_rounds", num_rounds, minimum=0)
        first, last = self._num_rounds_asked, self._num_rounds_asked + num_rounds
        self.stop_reason = None
        with self._folder.locked() if self._folder else contextlib.nullcontext():
            self._catch_up()
            if self.initial_round is None:
                # Refuses an unusable model before anybody labels.
                self._trained.make(validation_data)
                if num_rounds:
                    self._refuse_missing_score()
                self._label(self._initial_ids)
            self._trained.train(self._progress, validation_data)
            while len(self.history) < last and self.stop_reason is None:
                ids = self._choose()
                if len(ids):
                    self._label(ids)
                    self._trained.train(self._progress, validation_data)
        self._num_rounds_asked = last
        return self.history[first:last]

    def _choose(self) -> np.ndarray:
        """The ids of the next round; sets `stop_reason` if there are none."""
        labelled = self.labelled_ids
        free = np.setdiff1d(np.arange(self._pool.size), labelled)
        if not len(free):
            self._stop(f"all {self._pool.size} rows of the pool are labelled")
            return free
        is_random = self._acquisition == RANDOM
        free = randomness.generator(
            self._seed, RANDOM if is_random else "candidates", len(labelled)
        ).permutation(free)
        chosen = self._first_finite(free) if is_random else self._highest(free)
        if not len(chosen):
            what = "inputs are not finite" if is_random else "the acquisition is NaN"
            self._stop(f"{what} for all {len(free)} rows that have no label")
        return chosen

    def _first_finite(self, free):
        """The first rows without NaN and infinities."""
        chosen, start, size = free[:0], 0, self._query_size
        while start < len(free) and len(chosen) < self._query_size:
            ids = free[start : start + size]
            finite = ids[which_rows_are_finite(self._pool.rows(ids))]
            chosen = np.concatenate([chosen, finite])
            # Twice as many each time, since a data set is read anew.
            start, size = start + size, 2 * size
        return chosen[: self._query_size]

    def _highest(self, free):
        """The rows with the highest scores of the first candidates."""
        ties = randomness.generator(self._seed, "ties", len(self.labelled_ids))
        size = self._candidate_size or len(free)
        chosen = free[:0]
        # Ends after one pass, unless too many of the candidates' scores are NaN.
        for start in range(0, len(free), size):
            ids, scores = self._score(free[start : start + size])
            wanted = self._query_size - len(chosen)
            chosen = np.concatenate([chosen, highest(ids, scores, wanted, ties)])
            if len(chosen) == self._query_size:
                break
        return chosen

    def _refuse_missing_score(self):
        # A function may compare all rows, so that one row would mean nothing to it.
        if not callable(self._acquisition) and self._acquisition != RANDOM:
            self._score(self._initial_ids[:1])

    def _score(self, ids):
        return score_rows(
            self.model,
            self._acquisition,
            self._pool,
            ids,
            num_samples=self._num_samples,
            batch_size=self._fit_kwargs.get("batch_size"),
            seed=randomness.integer(self._seed, "draws", len(self.labelled_ids)),
        )

    def _stop(self, reason: str) -> None:
        self.stop_reason = f"Active learning has ended: {reason}."
        logging.info("%s", self.stop_reason)

    def _label(self, ids: np.ndarray) -> None:
        """Asks for labels, and saves them before anything else happens."""
        labels = arguments.checked_labels(
            self._label_fn(ids.copy()), len(ids), self.labels
        )
        self._refuse_labels_without_meaning(labels)
        self._progress.add(ids, labels)
        self._write()

    def _refuse_labels_without_meaning(self, labels: np.ndarray) -> None:
        check = getattr(self.model, "check_labels", None)
        if check is not None:
            check(labels)

    # -- the folder -------------------------------------------------------------------

    def _catch_up(self) -> None:
        """Catches up with the folder, which another learner may have extended."""
        if self._folder is None:
            return
        there, here = self._folder.read(self._configuration), self._progress
        if there.takes_over(here):
            self._progress = there.with_metrics_of(here)
        elif here.takes_over(there):
            # The folder lacks what could not be written, or has since been deleted.
            self._progress.models = there.models
        else:
            raise ValueError(
                f"`directory` {self._folder.path} holds other rows or labels than this "
                "learner: another run went on there, or a label was corrected. Make a "
                "new `ActiveLearner` to go on from there. Nothing was changed."
            )
        # Finds out, before anybody labels, whether the folder can be written to.
        self._write()
        self._folder.tidy(self._progress)

    def _write(self) -> None:
        if self._folder is not None:
            self._folder.write(self._progress)
