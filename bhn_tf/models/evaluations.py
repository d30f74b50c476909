"""The evaluation that runs: its draws, and who waits for whom."""

import contextlib
import threading

import keras
import tensorflow as tf

from bhn_tf.models.draws import Draws


class Evaluations:
    """The draws of the evaluation that runs, one at a time.

    Keras's loop calls a compiled function of the batch alone, so the draws have to lie
    where it finds them. Evaluations of other threads wait; one that a callback asks for
    in the midst of another, or of training, leaves everything as it was.
    """

    def __init__(self):
        self._lock = threading.RLock()
        self._local = threading.local()
        self._values = self._log_prob = None
        self._num_running = 0

    @property
    def draws(self):
        """The `Draws` of the evaluation, as variables that hold any number S."""
        log_prob = None if self._log_prob is None else self._log_prob.value()
        return Draws(self._values.value(), log_prob)

    @property
    def is_reporting(self) -> bool:
        """Whether this thread asks for the logs of an evaluation."""
        return getattr(self._local, "is_reporting", False)

    @contextlib.contextmanager
    def reporting(self, is_evaluation: bool):
        """Lets the model's metrics be those of evaluation, or of training."""
        before = self.is_reporting
        self._local.is_reporting = is_evaluation
        try:
            yield
        finally:
            self._local.is_reporting = before

    def make_room_for(self, draws) -> None:
        """Makes the variables; call it in the scope of the model's strategy."""
        with self._lock:
            if self._values is None:
                self._values = _any_number(draws.values)
                if draws.log_prob is not None:
                    self._log_prob = _any_number(draws.log_prob)

    @contextlib.contextmanager
    def one(self, draws, sums):
        """Runs an evaluation under draws.

        Args:
            draws: The `Draws`.
            sums: Variables of metrics that are given back what they hold.
        """
        with self._lock, self.reporting(True):
            held, sums = self.draws, sums if self._num_running else []
            values = [keras.ops.convert_to_numpy(variable) for variable in sums]
            self._assign(draws)
            try:
                with self.beside_training():
                    yield
            finally:
                self._assign(held)
                for variable, value in zip(sums, values, strict=True):
                    variable.assign(value)

    @contextlib.contextmanager
    def beside_training(self):
        """Says that the sums of the metrics are in use."""
        self._num_running += 1
        try:
            yield
        finally:
            self._num_running -= 1

    def _assign(self, draws):
        self._values.assign(draws.values)
        if self._log_prob is not None:
            self._log_prob.assign(draws.log_prob)


def _any_number(values) -> tf.Variable:
    return tf.Variable(values, trainable=False, shape=[None, *values.shape[1:]])
