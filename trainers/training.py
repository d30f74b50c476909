"""Training that shows progress, resumes after a kill and repeats exactly."""

import functools
import signal
import sys
import time
from collections.abc import Callable

import keras
import tensorflow as tf

from bhn_tf.data_feeds.epochs import batches_of_epochs
from bhn_tf.models import workers
from trainers.config import CommonConfig
from trainers.divergence import guarded, lower_rate
from trainers.run_folder import RunFolder

_SECONDS_BETWEEN_CHECKPOINTS = 20.0


@functools.cache
def strategy_of(name: str) -> tf.distribute.Strategy:
    """Returns the strategy that `--strategy` names, one object for each process.

    Several objects would give their collective operations the same keys, and clash.
    """
    if name == "mirrored":
        return tf.distribute.MirroredStrategy()
    if name == "multi_worker":
        strategy = workers.strategy_of_workers()
        # TensorFlow catches this signal: a worker that is told to end would go on.
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        return strategy
    return tf.distribute.get_strategy()


def steps_of_epoch(num_rows: int, batch_size: int) -> int:
    """Returns the number of batches of an epoch; the last may be smaller."""
    return -(-num_rows // batch_size)


def epochs_of_annealing(epochs: int, part: int) -> int:
    """Returns over how many epochs the KL comes in: the first 1 / `part` of them.

    The last epoch has the whole KL, however few there are, so that what is reported has
    been trained.
    """
    return min(max(epochs // part, 1), epochs - 1)


def shuffled_epochs(
    x, y, batch_size: int, seed: int, first_epoch: int, last_epoch: int
) -> tf.data.Dataset:
    """Batches of all epochs in a row; see `bhn_tf.data_feeds.epochs`."""
    rows = tf.constant(x), tf.constant(y)
    return batches_of_epochs(rows, batch_size, seed, first_epoch, last_epoch)


class _Progress(keras.callbacks.Callback):
    """A bar over the epochs, a log line for each, and a checkpoint now and then."""

    _SHOWN = ("loss", "accuracy", "kl")

    def __init__(self, folder: RunFolder, method: str, logged: list[dict], epochs: int):
        super().__init__()
        self._folder, self._method, self._epochs = folder, method, epochs
        self._first_epoch, self._logged = len(logged), logged
        self._bar = keras.utils.Progbar(
            epochs, stateful_metrics=self._SHOWN, unit_name="epoch"
        )
        self._last_checkpoint = time.monotonic()

    def on_train_begin(self, logs=None):
        after = f", after {self._first_epoch} epochs" if self._first_epoch else ""
        print(f"Training {self._method}{after}", flush=True)

    def on_epoch_begin(self, epoch, logs=None):
        self._started = time.monotonic()

    def on_epoch_end(self, epoch, logs=None):
        done = epoch + 1
        now = time.monotonic()
        entry = {"method": self._method, "epoch": done}
        entry |= {name: float(value) for name, value in logs.items()}
        self._logged.append({**entry, "seconds": now - self._started})
        is_last = done == self._epochs
        is_due = now - self._last_checkpoint > _SECONDS_BETWEEN_CHECKPOINTS
        # All workers save together: they share the work, and resume from one epoch.
        if is_last or workers.agreed(self.model.distribute_strategy, int(is_due)):
            # The log goes first: a resumed run drops its lines beyond the checkpoint.
            self._folder.epochs.replace(self._method, self._logged)
            self._folder.checkpoints.save(self._method, done, self.model)
            self._last_checkpoint = time.monotonic()
        self._show(done, {name: logs[name] for name in self._SHOWN if name in logs})

    def _show(self, done, values):
        if sys.stdout.isatty():
            self._bar.update(done, list(values.items()))
        elif done == self._epochs or done % max(self._epochs // 10, 1) == 0:
            # A log file gets some lines instead of a bar that redraws itself.
            text = "  ".join(f"{name} {value:.4g}" for name, value in values.items())
            print(f"  epoch {done}/{self._epochs}  {text}", flush=True)


def train(
    folder: RunFolder,
    method: str,
    config: CommonConfig,
    make_model: Callable[[], keras.Model],
    x,
    y,
    epochs: int,
    callbacks=(),
) -> tuple[keras.Model, float]:
    """Trains a model, or resumes from the folder's checkpoint.

    Args:
        folder: Where checkpoints and logs go.
        method: Name of the model in logs and checkpoints.
        config: Seed, batch size and strategy.
        make_model: Returns a compiled model.
        x, y: Training data.
        epochs: Passes over the data.
        callbacks: Further callbacks.

    Returns:
        The trained model and the seconds of training, over all runs.

    Raises:
        UsageProblem: If training diverges; the checkpoints before it stay.
    """
    keras.utils.set_random_seed(config.seed)
    with strategy_of(config.strategy).scope():
        first_epoch, model = folder.checkpoints.load(method) or (0, make_model())
    logged = folder.epochs.of_training(method, first_epoch)
    if first_epoch < epochs:
        progress = _Progress(folder, method, logged, epochs)
        mend = lower_rate(config.learning_rate)
        last_path = functools.partial(folder.checkpoints.last_path, method)
        with guarded(method, mend, last_path) as guard:
            model.fit(
                shuffled_epochs(
                    x, y, config.batch_size, config.seed, first_epoch, epochs
                ),
                steps_per_epoch=steps_of_epoch(len(x), config.batch_size),
                initial_epoch=first_epoch,
                epochs=epochs,
                verbose=0,
                callbacks=[*callbacks, guard, progress],
            )
    return model, sum(entry["seconds"] for entry in logged)
