"""The model of an active learner: made, trained round by round, kept on disk."""

from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf
from absl import logging

from bhn_tf import keras_adapter
from bhn_tf.active import arguments, randomness
from bhn_tf.active.evaluation import as_numbers, evaluate
from bhn_tf.active.folder import LearnerFolder
from bhn_tf.active.pool import Pool
from bhn_tf.active.progress import Progress
from bhn_tf.active.state import check_configuration
from bhn_tf.data_feeds import Feed, feed_of, unpacked
from bhn_tf.data_feeds.array_feed import ArrayFeed
from bhn_tf.divergence import Diverged, DivergenceGuard
from bhn_tf.user_warnings import warn_user


class TrainedModel:
    """A model that follows the labels.

    Args:
        make_model: Returns a compiled model.
        pool: Where the rows are.
        initial_ids: Rows of the first round, [n].
        warm_start: As in `ActiveLearner`.
        fit_kwargs: Further arguments of `fit`.
        seed: Seed of all trainings.
        folder: Where trained models are kept; `None` for nowhere.
    """

    def __init__(
        self,
        make_model: Callable[[], keras.Model],
        pool: Pool,
        initial_ids: np.ndarray,
        warm_start: bool | str,
        fit_kwargs: dict,
        seed: int,
        folder: LearnerFolder | None,
    ):
        self._make_model = make_model
        self._pool = pool
        self._initial_ids = initial_ids
        self._warm_start = warm_start
        self._fit_kwargs = fit_kwargs
        self._seed = seed
        self._folder = folder
        #: Architecture and strategy of `make_model`'s model, once it has made one.
        self._description: dict | None = None
        self._strategy: tf.distribute.Strategy | None = None
        self._forget()

    def _forget(self) -> None:
        self._model: keras.Model | None = None
        #: Number of labels that the model in memory is trained on.
        self._num_trained = 0

    def make(self, validation_data=None) -> None:
        """Makes the model of the first round, before there are labels.

        Args:
            validation_data: What it will be evaluated on.

        Raises:
            ValueError: If it cannot take the rows of the pool, or these data.
        """
        model = self._new_model(len(self._initial_ids))
        if hasattr(model, "check_data"):
            _check(model, feed_of(self._pool.rows(self._initial_ids)))
            if isinstance(validation_data, tuple | list):
                _check(model, feed_of(*unpacked(validation_data)))
        self._model, self._num_trained = model, 0

    def latest(self, progress: Progress) -> keras.Model | None:
        """The model in memory, or the latest loadable one on disk."""
        if self._folder is None:
            return self._model
        if self._num_trained < progress.num_trained:
            # Another learner has extended the folder.
            self._forget()
        numbers = sorted(progress.models, reverse=True) if self._model is None else ()
        for number in numbers:
            if number <= progress.num_trained:
                self._model = self._loaded(progress, number)
            if self._model is not None:
                self._num_trained = number
                break
        return self._model

    def _loaded(self, progress: Progress, number: int) -> keras.Model | None:
        """A model on disk, if it has the architecture that `make_model` makes."""
        # Called only if there is a folder.
        assert self._folder is not None
        if self._description is None or self._strategy is None:
            made = self._made_model()
            self._description = _described(made)
            self._strategy = made.distribute_strategy
        # A file does not say on which devices its model was trained.
        with self._strategy.scope():
            model = self._folder.read_model(progress, number)
        if model is not None:
            check_configuration(self._folder.path, _described(model), self._description)
        return model

    def train(self, progress: Progress, validation_data) -> None:
        """Trains on all labels, unless that has been done.

        Earlier rounds whose model or metrics are lost are trained again, with the same
        seeds and therefore the same results.
        """
        self.latest(progress)
        rounds = self._rounds_to_train(progress)
        if len(rounds) > 1:
            logging.info("Training %d rounds again.", len(rounds))
        for entry in rounds:
            try:
                self._train_round(progress, entry, validation_data)
            except BaseException as error:
                # The model is half-trained, while that on disk is intact, and that of
                # the first round is made again; or it is useless after divergence.
                is_first = not self._num_trained
                if is_first or self._folder is not None or isinstance(error, Diverged):
                    self._forget()
                raise
            self._num_trained = entry["num_labelled"]
            if self._folder is not None:
                self._folder.write_model(progress, self._num_trained, self._model)

    def _rounds_to_train(self, progress: Progress) -> list[dict]:
        rounds = progress.rounds
        behind = [e for e in rounds if e["num_labelled"] > self._num_trained]
        if self._warm_start is True:
            return behind
        # Each round starts anew, so rounds with known metrics can be skipped.
        return [e for e in behind if e["metrics"] is None or e is rounds[-1]]

    def _train_round(self, progress: Progress, entry: dict, validation_data) -> None:
        # Every round brings labels.
        assert progress.labels is not None
        num_labelled = entry["num_labelled"]
        goes_on = self._warm_start is True or not self._num_trained
        if self._model is None or not goes_on:
            self._model = self._new_model(num_labelled)
        assert self._model is not None
        model, labels = self._model, progress.labels[:num_labelled]
        x = self._pool.rows(progress.ids[:num_labelled])
        if hasattr(model, "num_examples"):
            model.num_examples = num_labelled
        value = randomness.seed_training(self._seed, num_labelled)
        randomness.seed_layers(model, value)
        _warn_of_a_spent_rate(model)
        # First, so that callbacks that save never see diverged weights.
        watching = [DivergenceGuard(), self._fit_kwargs.get("callbacks") or []]
        kwargs = {**self._fit_kwargs, "callbacks": keras.tree.flatten(watching)}
        found = model.fit(x, labels, **{"verbose": 0, **kwargs})
        metrics = {name: as_numbers(v[-1]) for name, v in found.history.items()}
        if validation_data is not None:
            batch_size = self._fit_kwargs.get("batch_size")
            draws = randomness.integer(self._seed, "evaluate", num_labelled)
            metrics |= evaluate(model, validation_data, batch_size, draws)
        entry["metrics"] = {**(entry["metrics"] or {}), **metrics}

    def _new_model(self, num_labelled: int) -> keras.Model:
        is_first = self._warm_start == "first_weights"
        randomness.seed_training(
            self._seed, len(self._initial_ids) if is_first else num_labelled
        )
        return self._made_model()

    def _made_model(self) -> keras.Model:
        model = arguments.checked_model(self._make_model())
        arguments.refuse_unknown_fit_kwargs(self._fit_kwargs, model)
        if not model.built:
            # Creates the weights now, from this seed, and not in `fit`.
            model.predict(self._pool.rows(self._initial_ids[:1]), verbose=0)
        arguments.refuse_several_outputs(model)
        return model


def _check(model: keras.Model, feed: Feed) -> None:
    """Refuses arrays that the model cannot be trained on, or cannot answer."""
    # Data sets are checked when they are read.
    if isinstance(feed, ArrayFeed):
        model.check_data(feed.x, feed.y, feed.sample_weight)
        model.predict(feed.first_rows(1).x, verbose=0)


def _warn_of_a_spent_rate(model: keras.Model) -> None:
    """Warns if a schedule that goes on from round to round has come to its end."""
    optimizer = getattr(model, "optimizer", None)
    if optimizer is not None and keras_adapter.has_spent_schedules(optimizer):
        warn_user(
            f"The learning rate is 0 after {int(optimizer.iterations)} steps, so that "
            "nothing is learned from these labels. With `warm_start=True` the "
            "optimizer and its schedule go on from round to round: give a schedule "
            "for the steps of all rounds, a constant rate, or `warm_start=False`."
        )


def _described(model: keras.Model) -> dict:
    """Identifies an architecture, whatever its layers are called."""
    return {
        "class_of_model": type(model).__name__,
        "parameters_of_model": model.count_params(),
        "shapes_of_weights": sorted(tuple(w.shape) for w in model.weights),
    }
