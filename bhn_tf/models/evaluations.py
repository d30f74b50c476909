"""The running evaluation: its draws, and who waits for whom."""

import contextlib
import threading

import keras
import tensorflow as tf

from bhn_tf.models.draws import Draws


class Evaluations:
    """Holds the draws of the running evaluation; only one runs at a time.

    Keras's loop calls a compiled function of the batch alone, which therefore has to
    find the draws here. Evaluations in other threads wait; one that a callback starts
    within another, or within training, leaves everything as it was.
    """

    def __init__(self):
        self._lock = threading.RLock()
        self._local = threading.local()
        self._values = self._log_prob = None
        self._num_running = 0

    @property
    def draws(self):
        """The `Draws` of the evaluation, read from variables of any S."""
        if self._values is None:
            raise ValueError(
                "`test_step` scores rows under draws that `evaluate` makes, the same "
                "for all: call `evaluate`, or `test_on_batch` for one batch."
            )
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
    def one(self, draws, metrics):
        """Runs an evaluation under draws.

        Args:
            draws: The `Draws`.
            metrics: Metrics whose sums are to be restored if they are in use.
        """
        with self._lock, self.reporting(True):
            held, metrics = self.draws, metrics if self._num_running else []
            sums = [
                (metric, list(map(keras.ops.convert_to_numpy, metric.variables)))
                for metric in metrics
            ]
            self._assign(draws)
            try:
                with self.beside_training():
                    yield
            finally:
                self._assign(held)
                for metric, values in sums:
                    if not values:
                        # Its variables may have been made on the way.
                        metric.reset_state()
                        continue
                    for variable, value in zip(metric.variables, values, strict=True):
                        variable.assign(value)

    @contextlib.contextmanager
    def beside_training(self):
        """Marks the sums of the metrics as in use."""
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
