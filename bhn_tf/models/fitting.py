"""`fit` and `evaluate`: data are checked and counted before any work."""

import contextlib
import functools
import inspect

import keras

from bhn_tf.data_feeds.checks import batch_spec, readable_data_errors
from bhn_tf.data_feeds.num_examples import num_rows


class Fitting:
    """Mixin of `PredictiveModel`: the calls that train and evaluate.

    Each builds what is not built yet, refuses data that would train on silently, makes
    the draws it needs, and leaves the loop itself to Keras.
    """

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self._ranks = {}

    def _learn_num_examples(self, x, validation_split, verbose):
        """Learns N from the training data, where it matters."""

    @functools.wraps(keras.Model.fit)
    def fit(self, *args, **kwargs):
        bound = inspect.signature(keras.Model.fit).bind(self, *args, **kwargs)
        bound.apply_defaults()
        arguments = {**bound.arguments}
        del arguments["self"]
        # What has an order of its own: Keras warns where it is told to shuffle it.
        arguments["shuffle"] &= _can_be_shuffled(arguments["x"])
        self._assert_compile_called("fit")
        self._build_from_data(arguments["x"])
        self._check_options(arguments["validation_split"], arguments["class_weight"])
        arguments["x"] = self._checked(
            arguments["x"], arguments["y"], arguments["sample_weight"]
        )
        if arguments["validation_data"] is not None:
            arguments["validation_data"] = self._checked_validation_data(
                arguments["validation_data"]
            )
        self._keep_ranks(
            "train_function",
            arguments["x"],
            arguments["y"],
            arguments["sample_weight"],
        )
        with readable_data_errors():
            self._learn_num_examples(
                arguments["x"], arguments["validation_split"], arguments["verbose"]
            )
            self._build_optimizer()
            return super().fit(**arguments)

    def _check_options(self, validation_split, class_weight) -> None:
        if not 0.0 <= (validation_split or 0.0) < 1.0:
            raise ValueError(
                "Expected `validation_split` to be a share of the rows, from 0 up to "
                f"but not 1, got {validation_split!r}."
            )
        specs = keras.tree.flatten(self._raw_spec)
        has_elements = any(spec is not None and len(spec.shape) > 2 for spec in specs)
        if class_weight is not None and has_elements:
            raise ValueError(
                "`class_weight` gives each row the weight of its one class, and rows "
                "of this network have several (pixels, tokens). Give `sample_weight`."
            )

    def evaluate(
        self,
        x=None,
        y=None,
        batch_size=None,
        verbose="auto",
        sample_weight=None,
        steps=None,
        callbacks=None,
        return_dict=False,
        *,
        num_samples: int | None = None,
        seed: int | None = None,
        **kwargs,
    ):
        """Scores data over S draws, the same for all rows.

        Args:
            x, y, batch_size, verbose, sample_weight, steps, callbacks, return_dict:
                As in Keras.
            num_samples: S; `None` for `eval_samples` of `compile`, 0 for the centre.
            seed: A non-negative integer for the same draws every time.

        Returns:
            As in Keras. `nll` is the mean over draws and rows, the term of the
            bound; `predictive_nll` is -log of the mean probability, what to monitor
            (with `mode="min"`: Keras knows the direction of compiled metrics only).

        Raises:
            ValueError: If the data are empty, not finite, or have labels without a
                meaning.
        """
        self._assert_compile_called("evaluate")
        # Within `fit`, validation data have been checked and made into batches.
        if not kwargs.get("_use_cached_eval_dataset"):
            self._build_from_data(x)
            x = self._checked(x, y, sample_weight)
        self._keep_ranks("test_function", x, y, sample_weight)
        with self._evaluation(num_samples, seed), readable_data_errors():
            return super().evaluate(
                x=x,
                y=y,
                batch_size=batch_size,
                verbose=verbose,
                sample_weight=sample_weight,
                steps=steps,
                callbacks=callbacks,
                return_dict=return_dict,
                **kwargs,
            )

    @functools.wraps(keras.Model.train_on_batch)
    def train_on_batch(self, x, y=None, sample_weight=None, *args, **kwargs):
        self._assert_compile_called("train_on_batch")
        self._build_from_data(x)
        self._checked(x, y, sample_weight)
        self._keep_ranks("train_function", x, y, sample_weight)
        self._build_optimizer()
        return super().train_on_batch(x, y, sample_weight, *args, **kwargs)

    def test_on_batch(
        self,
        x,
        y=None,
        sample_weight=None,
        return_dict=False,
        *,
        num_samples: int | None = None,
        seed: int | None = None,
    ):
        """Scores one batch; the arguments are those of `evaluate`."""
        self._assert_compile_called("test_on_batch")
        self._build_from_data(x)
        self._checked(x, y, sample_weight)
        self._keep_ranks("test_function", x, y, sample_weight)
        with self._evaluation(num_samples, seed):
            return super().test_on_batch(x, y, sample_weight, return_dict)

    @contextlib.contextmanager
    def _evaluation(self, num_samples, seed):
        """Makes the draws of an evaluation and lets its logs show."""
        self._set_draws(self.eval_samples if num_samples is None else num_samples, seed)
        self._evaluating = True
        try:
            yield
        finally:
            self._evaluating = False
        if keras.ops.convert_to_numpy(self._nll.count) == 0:
            raise ValueError("The data yielded no row, so there is nothing to report.")

    def _keep_ranks(self, function_name, *data):
        """Forgets the compiled function of a step whose data change their ranks.

        TensorFlow would relax its trace to labels of unknown rank, among which nobody
        can tell class numbers from one-hot rows.
        """
        ranks = _ranks(*data)
        if self._ranks.get(function_name, ranks) != ranks:
            setattr(self, function_name, None)
        self._ranks[function_name] = ranks

    def _build_optimizer(self):
        # A step that creates the optimizer's variables would be traced twice.
        if self.built and not self.optimizer.built:
            with self._own_scope():
                self.optimizer.build(self.trainable_variables)

    def _maybe_symbolic_build(self, iterator=None, data_batch=None):
        """Builds compiled metrics ahead of the replicas.

        Keras averages the batches of all replicas to learn their shapes, which fails
        where the first batch does not divide evenly; the first replica's will do.
        """
        metrics = self._compile_metrics
        if self._distribute_strategy is None or metrics is None or metrics.built:
            return
        if iterator is not None:
            _, _, batches = next(iter(iterator))
            data_batch = next(batches)
        first = keras.tree.map_structure(
            lambda leaf: self.distribute_strategy.experimental_local_results(leaf)[0],
            data_batch,
        )
        x, y, _ = keras.utils.unpack_x_y_sample_weight(first)
        with self._own_scope():
            self._build_from_data(x)
            y_pred = self._mean_like(y)
            metrics.build(self.likelihood.as_outputs(y, y_pred), y_pred)


def _can_be_shuffled(x) -> bool:
    """Whether Keras can take the rows or batches in any order."""
    if isinstance(x, keras.utils.PyDataset):
        return x.num_batches is not None
    return num_rows(x) is not None


def _ranks(x, y, sample_weight) -> list:
    """Numbers of axes of what is in a batch; empty where the data do not say."""
    leaves = keras.tree.flatten(batch_spec(x, y, sample_weight))
    return [len(leaf.shape) for leaf in leaves if hasattr(leaf, "shape")]
