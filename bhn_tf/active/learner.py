"""The loop of active learning: train, ask for labels, train again."""

from collections.abc import Callable, Mapping

import keras
import numpy as np

from bhn_tf.active import arguments, randomness
from bhn_tf.active.acquisition import RANDOM, Acquisition, highest, score_rows
from bhn_tf.active.evaluation import evaluate
from bhn_tf.active.pool import Pool
from bhn_tf.active.state import LearnerFiles
from bhn_tf.arguments import check_count


class ActiveLearner:
    """Asks for the labels that a model can learn most from.

    Pool-based active learning as in Gal, Islam and Ghahramani, "Deep Bayesian active
    learning with image data", ICML 2017, and the paper's section "Active Learning": the
    model is trained on the labelled rows, every candidate of the pool gets a score, the
    rows of the highest scores are labelled, and so on. Ids index the full pool all the
    time; no row is asked for twice.

    Everything random is a function of `seed` and of the number of labels, so that the
    same arguments ask for the same ids, and without warm start a round that is run
    alone (with its labelled ids as `initial_ids`) equals the round within a longer run.
    Keras's global seed is set before each training.

    Args:
        make_model: Returns a compiled model: a `BayesianHypernet`, one of
            `bhn_tf.baselines`, or any with their `predict*` calls. Where it has
            `num_examples`, that is set to the number of labels.
        pool_x: Inputs: an array [rows, ...], a dictionary or list of such arrays, or a
            finite `tf.data.Dataset` of batches of inputs in a fixed order.
        label_fn: Called with ids [n]; returns their labels, an array [n, ...].
        initial_ids: Rows that are labelled first.
        acquisition: "bald", "max_entropy", "variation_ratio", "mean_std", any other
            name of `bhn_tf.uncertainty.SCORES`, "epistemic_std" for a regression,
            "random", or a function of probabilities [rows, S, C] that returns scores
            [rows]. The highest are asked for, ties at random, NaN never.
        query_size: Rows of a round.
        num_samples: S, draws for the scores.
        candidate_size: Rows, at random, that are scored in a round; `None` for all.
        warm_start: True goes on from the weights and the optimizer of the round
            before; False makes a new model for each round; `"first_weights"` makes
            each round start from the weights that the first one started from.
        fit_kwargs: Further arguments of `fit`, such as `{"epochs": 50}`; `batch_size`
            counts for predictions too.
        directory: Folder of the state, written after each round. A learner with the
            same arguments goes on where an earlier one stood, also one that was killed.
        seed: A non-negative integer for the same ids each time; `None` for a new one.

    Raises:
        ValueError: If an argument makes no sense, or `directory` belongs to another
            configuration.

    Example:
    ```python
    learner = bhn_tf.active.ActiveLearner(
        make_model, pool_x, lambda ids: ask_a_human(pool_x[ids]), initial_ids=range(20),
        fit_kwargs={"epochs": 50}, directory="labelling", seed=0,
    )
    history = learner.run(10, validation_data=(x_test, y_test))
    print(learner.labelled_ids, history[-1]["metrics"]["val_accuracy"])
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
        arguments.check_settings(
            acquisition, query_size, num_samples, candidate_size, warm_start, seed
        )
        self._make_model = make_model
        self._label_fn = label_fn
        self._pool = Pool(pool_x)
        self._initial_ids = arguments.checked_ids(initial_ids, self._pool.size)
        self._acquisition = acquisition
        self._query_size = query_size
        self._num_samples = num_samples
        self._candidate_size = candidate_size
        self._warm_start = warm_start
        self._fit_kwargs = arguments.checked_fit_kwargs(fit_kwargs)
        self._model = None
        self._labels = None
        self._rounds: list[dict] = []
        self._num_rounds_asked = 0
        #: Why the last `run` ended early; `None` where it did not.
        self.stop_reason: str | None = None
        self._configuration = {
            "pool_size": self._pool.size,
            "checksum_of_initial_rows": self._pool.fingerprint(self._initial_ids),
            "initial_ids": self._initial_ids.tolist(),
            "acquisition": arguments.as_json(acquisition),
            "query_size": query_size,
            "num_samples": num_samples,
            "candidate_size": candidate_size,
            "warm_start": warm_start,
            "fit_kwargs": arguments.as_json(self._fit_kwargs),
            "seed": seed,
        }
        self._files = None if directory is None else LearnerFiles(directory)
        if self._files is not None:
            seed_there, self._rounds = self._files.read(self._configuration)
            seed = seed_there if seed is None else seed
        self._seed = np.random.SeedSequence().entropy % 2**31 if seed is None else seed
        self._configuration["seed"] = self._seed
        if self._rounds:
            self._labels = self._files.read_labels(len(self.labelled_ids))

    # -- what there is ----------------------------------------------------------------

    @property
    def labelled_ids(self) -> np.ndarray:
        """Indices into the pool in the order in which they were asked for."""
        ids = [i for entry in self._rounds for i in entry["ids"]]
        return np.array(ids, dtype=np.int64)

    @property
    def labels(self) -> np.ndarray | None:
        """The labels of `labelled_ids`; `None` before the first were asked for."""
        return self._labels

    @property
    def model(self) -> keras.Model | None:
        """The model, trained on all labels; `None` before the first training."""
        if self._model is None and self._num_trained:
            self._model = self._files.read_model(self._num_trained)
        return self._model

    @property
    def initial_round(self) -> dict | None:
        """The entry of the training on `initial_ids` alone."""
        return self._rounds[0] if self._rounds else None

    @property
    def history(self) -> list[dict]:
        """All rounds: the return values of `run`, one after the other."""
        return self._rounds[1:]

    @property
    def _num_trained(self) -> int:
        """Number of labels that the latest model has seen."""
        trained = [e["num_labelled"] for e in self._rounds if e["metrics"] is not None]
        return max(trained, default=0)

    # -- the loop ---------------------------------------------------------------------

    def run(self, num_rounds: int, validation_data=None) -> list[dict]:
        """Asks for labels and trains on them, `num_rounds` times.

        The first call begins with `initial_ids`: they are labelled and trained on, and
        `initial_round` has the result. Rounds found in `directory` count as run: a
        program that was killed is started again as it is, and its calls of `run` return
        what they would have returned.

        Args:
            num_rounds: Rounds of `query_size` labels; 0 only trains on what is
                labelled.
            validation_data: `(x, y)` or a data set for `evaluate`, which says how good
                the model is. It has no influence on what is learned or asked for.

        Returns:
            One dictionary a round: `round` (1, 2, ...), `ids` asked for,
            `num_labelled` after them, and `metrics` of the model trained on all these:
            the logs of the last epoch, and with `val_` before their names those of
            `validation_data`. Fewer rounds where the pool is exhausted; `stop_reason`
            then says so.

        Raises:
            ValueError: If labels have a shape that does not fit, or the model is not
                compiled or cannot say how uncertain it is.
        """
        check_count("num_rounds", num_rounds, minimum=0)
        first, last = self._num_rounds_asked, self._num_rounds_asked + num_rounds
        self.stop_reason = None
        if not self._rounds:
            # A model that cannot be used is refused before anybody labels.
            self._model = self._new_model(len(self._initial_ids))
            self._label(self._initial_ids)
        self._train(validation_data)
        while len(self.history) < last and self.stop_reason is None:
            ids = self._choose()
            if len(ids):
                self._label(ids)
                self._train(validation_data)
        self._num_rounds_asked = last
        return self.history[first:last]

    def _choose(self) -> np.ndarray:
        """The ids of the next round; none, and `stop_reason`, where there are none."""
        labelled = self.labelled_ids
        free = np.setdiff1d(np.arange(self._pool.size), labelled)
        if not len(free):
            self._stop(f"all {self._pool.size} rows of the pool are labelled")
            return free
        if self._acquisition == RANDOM:
            rng = randomness.generator(self._seed, "random", len(labelled))
            return rng.permutation(free)[: self._query_size]
        free = randomness.generator(
            self._seed, "candidates", len(labelled)
        ).permutation(free)
        ties = randomness.generator(self._seed, "ties", len(labelled))
        size = self._candidate_size or len(free)
        chosen = free[:0]
        # One turn, unless too few of the candidates have a score that is a number.
        for start in range(0, len(free), size):
            ids, scores = self._score(free[start : start + size])
            wanted = self._query_size - len(chosen)
            chosen = np.concatenate([chosen, highest(ids, scores, wanted, ties)])
            if len(chosen) == self._query_size:
                break
        if not len(chosen):
            self._stop(
                f"the acquisition is NaN for all {len(free)} rows that have no label"
            )
        return chosen

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
        print(self.stop_reason, flush=True)

    def _label(self, ids: np.ndarray) -> None:
        """Asks for labels, and keeps them."""
        labels = arguments.checked_labels(
            self._label_fn(ids.copy()), len(ids), self._labels
        )
        if self._labels is not None:
            labels = np.concatenate([self._labels, labels])
        self._labels = labels
        entry = {"round": len(self._rounds), "ids": ids.tolist()}
        entry |= {"num_labelled": len(labels), "metrics": None}
        self._rounds.append(entry)
        self._write(labels)

    def _write(self, labels=None) -> None:
        if self._files is not None:
            self._files.write(self._configuration, self._rounds, labels)

    # -- training ---------------------------------------------------------------------

    def _train(self, validation_data) -> None:
        """Trains on all labels, where that has not been done."""
        entry = self._rounds[-1]
        if entry["metrics"] is not None:
            return
        num_labelled = entry["num_labelled"]
        if self.model is None or (self._warm_start is not True and self._num_trained):
            self._model = self._new_model(num_labelled)
        x, y = self._pool.rows(self.labelled_ids), self._labels
        if hasattr(self.model, "num_examples"):
            self.model.num_examples = num_labelled
        value = randomness.seed_training(self._seed, num_labelled)
        randomness.seed_layers(self.model, value)
        self._refuse_labels_without_meaning(entry)
        found = self.model.fit(x, y, **{"verbose": 0, **self._fit_kwargs})
        metrics = {name: float(v[-1]) for name, v in found.history.items()}
        if validation_data is not None:
            batch_size = self._fit_kwargs.get("batch_size")
            draws = randomness.integer(self._seed, "evaluate", num_labelled)
            metrics |= evaluate(self.model, validation_data, batch_size, draws)
        entry["metrics"] = metrics
        if self._files is not None:
            self._files.write_model(num_labelled, self.model)
            self._write()
            self._files.drop_other_models(num_labelled)

    def _new_model(self, num_labelled: int) -> keras.Model:
        is_first = self._warm_start == "first_weights"
        randomness.seed_training(
            self._seed, len(self._initial_ids) if is_first else num_labelled
        )
        model = arguments.checked_model(self._make_model())
        if not model.built:
            # Its weights are made now, from this seed, and not in `fit`.
            model.predict(self._pool.rows(self._initial_ids[:1]), verbose=0)
        return model

    def _refuse_labels_without_meaning(self, entry) -> None:
        check = getattr(self.model, "_check_labels", lambda labels: None)
        try:
            check(self._labels)
        except ValueError:
            # They have to be asked for again; whatever else fails keeps its labels.
            self._take_back(entry)
            raise

    def _take_back(self, entry) -> None:
        self._rounds.remove(entry)
        self._labels = self._labels[: len(self.labelled_ids)] if self._rounds else None
        self._write()
