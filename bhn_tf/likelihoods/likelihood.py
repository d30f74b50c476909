"""The base of every likelihood p(y|x, g)."""

import keras
import numpy as np
import tensorflow as tf

from bhn_tf.likelihoods.elements import align, both, neutral_where_uncounted


def at_least_float32(values) -> tf.Tensor:
    """Casts half precision to float32 and keeps float64."""
    values = tf.convert_to_tensor(values)
    return values if values.dtype == tf.float64 else tf.cast(values, tf.float32)


def _lacks(likelihood, method: str) -> NotImplementedError:
    return NotImplementedError(
        f"{type(likelihood).__name__} has no `{method}`: the docstring of `Likelihood` "
        "lists what a subclass has. `bhn_tf.likelihoods.Distribution(function)` asks "
        "for one function alone, of raw outputs, that returns a distribution of TFP."
    )


class Likelihood:
    """Base of the likelihoods: functions of labels and raw outputs of one draw.

    Rows are on axis 0. Further axes (pixels, tokens, several outputs) belong to one
    example, whose log-likelihood is the sum over these elements. Throughout,

    - `weight` multiplies log-probabilities before that sum: one for each row ([B] or
      [B, 1]), for each element ([B, T]) or for leading axes of the elements, with or
      without a further axis of 1;
    - `mask` is False for padding: booleans for leading axes of the elements, like
      Keras's masks.

    Where the weight is 0 or the mask False, labels and outputs may be anything, even
    NaN: they reach neither a result nor a gradient.

    A subclass has the methods under "to be provided": `element_shape`, `coded_labels`,
    `element_log_prob`, `valid_elements`, `mean`, `summarize` and `label_advice`, and
    sets `is_of_classes` if labels are classes. If there is a TFP distribution,
    `Distribution(function)` is shorter.

    Args:
        reduction: "sum" over the axes of an example, the log-likelihood itself, or
            "mean", which keeps the loss comparable across sizes but is no density.
    """

    def __init__(self, reduction: str = "sum", **kwargs):
        if reduction not in ("sum", "mean"):
            raise ValueError(
                f"Expected `reduction` to be 'sum' or 'mean', got {reduction!r}."
            )
        super().__init__(**kwargs)
        self.reduction = reduction

    # -- to be provided -------------------------------------------------------------

    def element_shape(self, raw_shape) -> tuple:
        """Shape of the elements, which each have a log-probability, [B, ...]."""
        raise _lacks(self, "element_shape")

    def coded_labels(self, y, raw_shape) -> tf.Tensor:
        """Labels in the elements' shape, or with a further axis (one-hot).

        Raises:
            ValueError: If labels of this shape do not fit the outputs.
        """
        raise _lacks(self, "coded_labels")

    def element_log_prob(self, y, raw) -> tf.Tensor:
        """Log p of each element, [B, ...], in float32 or better, never clipped."""
        raise _lacks(self, "element_log_prob")

    def valid_elements(self, y, raw_shape) -> tf.Tensor:
        """Whether each coded label has a meaning, in the elements' shape."""
        raise _lacks(self, "valid_elements")

    def mean(self, raw) -> tf.Tensor:
        """The mean of y for raw outputs: probabilities, or the regression's mean."""
        raise _lacks(self, "mean")

    def summarize(self, raws, mask=None) -> dict[str, tf.Tensor]:
        """The predictive mean and every score, from raw outputs [S, B, ...].

        Scores of padding (`mask` False) are NaN; the mean of padding is computed as
        for any element, as in Keras's `predict`.
        """
        raise _lacks(self, "summarize")

    def label_advice(self, raw_shape) -> str:
        """One sentence that says which labels are expected."""
        raise _lacks(self, "label_advice")

    # -- with a default ---------------------------------------------------------------

    #: Whether y is a real number in a unit, which may be changed; see `Standardized`.
    has_unit = False

    #: Whether y is a whole number.
    is_discrete = False

    #: Whether y is a class; the mean is then the probabilities of the classes.
    is_of_classes = False

    #: Whether labels are [time, event], where some times are only lower bounds.
    is_censored = False

    @property
    def is_set_by_data(self) -> bool:
        """Whether a model may set it to the targets before training."""
        return False

    def build_for_outputs(self, raw_shape) -> None:
        """Makes any missing state that depends on the shape of the outputs.

        A model calls it when built, with the shape of the raw outputs (or their list).
        """

    def neutral_label(self, raw):
        """A label possible for any raw outputs, to replace labels that do not count."""
        return 0

    def neutral_outputs(self, raw, counted, element_shape) -> tf.Tensor:
        """Replaces raw outputs of elements that do not count.

        Args:
            raw: Raw outputs of one draw, [B, ...].
            counted: Booleans with the elements' axes; see `counted_elements`.
            element_shape: Shape of the elements.
        """
        # 0.5 is harmless as a logit, as a probability and as a number.
        return neutral_where_uncounted(raw, counted, element_shape, 0.5)

    def clipped(self, log_prob, raw_shape) -> tf.Tensor:
        """The elements' log-probabilities as training uses them."""
        return log_prob

    def has_label(self, y, raw_shape) -> tf.Tensor | None:
        """Which coded labels are not missing; `None` if all are there."""
        return None

    # -- of several outputs; see `Joint` ---------------------------------------------

    #: Names of the outputs, if there are several.
    output_names: tuple[str, ...] = ()

    def parts_of_outputs(self) -> list["Likelihood"]:
        """The likelihood of each output, in the order of the outputs."""
        return [self]

    def weights_of_outputs(self, weight) -> list:
        """A weight or `None` for each output, in the order of the outputs."""
        return [weight]

    def weights_as_labels(self, weight, y):
        """Gives weights of several outputs the structure of the labels."""
        return weight

    def named_log_probs(self, y, raw, weight=None, mask=None) -> dict[str, tf.Tensor]:
        """`log_prob` of each output by name, if there are several."""
        return {}

    def as_outputs(self, y, outputs):
        """Gives labels the structure of the outputs."""
        return y

    def loss_weights_by_output(self, given) -> list[float]:
        """Returns the weight of each output's log-likelihood in the objective.

        Args:
            given: `compile`'s `loss_weights`; `None` for 1 each.

        Raises:
            ValueError: If they do not fit the outputs; a single output has none.
        """
        if given is not None:
            raise ValueError(
                f"`loss_weights={given!r}` weighs several outputs against each "
                "other, and the network has one. Leave it out."
            )
        return [1.0]

    # -- log-probabilities ------------------------------------------------------------

    def log_prob(self, y, raw, weight=None, mask=None) -> tf.Tensor:
        """Returns log p(y|x, g) of each example as training optimises it, clipped.

        Args:
            y: Labels.
            raw: Raw outputs of one draw, [B, ...].
            weight: Weights of rows or elements, or `None`.
            mask: Which elements are not padding, or `None`.

        Returns:
            [B], in float32 or better: Σ weight · log p over the elements; with
            `reduction="mean"` divided by the number of elements that are not padding.

        Raises:
            ValueError: If labels, weights or mask do not fit the outputs' shape.
        """
        return self._of_examples(y, raw, weight, mask, self.clipped)

    def measured_log_prob(self, y, raw, weight=None, mask=None) -> tf.Tensor:
        """Returns log p(y|x, g) of each example, never clipped; see `log_prob`."""
        return self._of_examples(y, raw, weight, mask, lambda log_prob, _: log_prob)

    def _of_examples(self, y, raw, weight, mask, finish):
        raw = at_least_float32(raw)
        shape, y = self.element_shape(raw.shape), self.coded_labels(y, raw.shape)
        if weight is not None:
            weight = tf.cast(align(weight, shape, "weight"), raw.dtype)
        real = both(
            self.counted_elements(raw.shape, mask=mask), self.has_label(y, raw.shape)
        )
        counted = both(real, None if weight is None else weight != 0)
        if counted is not None:
            raw = self.neutral_outputs(raw, counted, shape)
            y = neutral_where_uncounted(y, counted, shape, self.neutral_label(raw))
        elements = finish(self.element_log_prob(y, raw), raw.shape)
        if weight is not None:
            elements *= weight
        if counted is not None:
            elements = tf.where(counted, elements, tf.zeros_like(elements))
        total = _sum_of_rows(elements)
        if self.reduction == "sum":
            return total
        real = tf.ones_like(elements) if real is None else tf.cast(real, total.dtype)
        num_real = _sum_of_rows(tf.broadcast_to(real, tf.shape(elements)))
        return total / tf.maximum(num_real, 1.0)

    def predictive_log_prob(self, log_probs) -> tf.Tensor:
        """Returns log of the mean probability over draws, [B], from [S, B]."""
        num_samples = tf.cast(tf.shape(log_probs)[0], log_probs.dtype)
        return tf.reduce_logsumexp(log_probs, axis=0) - tf.math.log(num_samples)

    @property
    def has_interval(self) -> bool:
        """Whether y has intervals, as numbers and ordered classes have."""
        return type(self).interval is not Likelihood.interval

    def interval(self, raws, level):
        """Returns the bounds of a central interval of y; for regression only."""
        raise ValueError(
            f"`predict_interval` needs a regression likelihood, and this model has "
            f"{type(self).__name__}. `predict_uncertainty` gives its scores."
        )

    def log_tails(self, y, raw):
        """Returns log P(Y ≤ y) and log P(Y ≥ y) of each element; for regression only.

        In logarithms, both tails still order targets that are far away.
        """
        raise ValueError(
            f"The score 'quantile' is made of a cumulative distribution function, and "
            f"{type(self).__name__} has none here. Use 'normalized' or 'absolute'."
        )

    def possible(self, bounds, raws) -> list[tf.Tensor]:
        """Returns bounds of y, moved to possible values of y.

        Args:
            bounds: [B, ..., C] each; infinite if there is no bound.
            raws: Raw outputs of S draws, [S, B, ...].
        """
        return list(bounds)

    def resolved(self, activation, reason: str) -> "Likelihood":
        """Returns the likelihood for a network that ends with `activation`.

        Args:
            activation: The last activation function, or `None` if it is not known.
            reason: Why it is not known.
        """
        return self

    # -- what counts ------------------------------------------------------------------

    def counted_elements(self, raw_shape, weight=None, mask=None):
        """Which elements count: all that have a weight and are not padding.

        Args:
            raw_shape: Shape of the raw outputs, rows first; entries may be `None`.
            weight: Weights of rows or elements, or `None`.
            mask: Which elements are not padding, or `None`.

        Returns:
            Booleans for leading axes of the elements, with axes of 1 for the others;
            `None` if all count.
        """
        shape = self.element_shape(raw_shape)
        if mask is not None:
            mask = tf.cast(align(mask, shape, "mask"), tf.bool)
        if weight is not None:
            weight = tf.cast(align(weight, shape, "weight"), tf.float64) != 0
        return both(mask, weight)

    # -- checks of labels -------------------------------------------------------------

    def valid_labels(self, y, raw_shape, weight=None, mask=None) -> tf.Tensor:
        """A boolean scalar: whether all labels that count have a meaning."""
        valid, counted = self._valid_and_counted(y, raw_shape, weight, mask)
        return tf.reduce_all(valid if counted is None else valid | ~counted)

    def check_labels(self, y, raw_shape, weight=None, mask=None) -> None:
        """Refuses labels without a meaning before any work.

        Args:
            y: Labels, an array.
            raw_shape: Shape of the raw outputs, rows first; entries may be `None`.
            weight: Weights of rows or elements: labels of weight 0 are not checked.
            mask: Which elements are not padding: padding is not checked.

        Raises:
            ValueError: If a label is out of range, not finite or of another shape.
        """
        _refuse_dictionary(y)
        if np.asarray(y).dtype.kind in "OSTU":
            raise ValueError(
                f"Labels of dtype {np.asarray(y).dtype} are no numbers: "
                f"{self.label_advice(raw_shape)} Numbers that are kept as objects are "
                "such after `y.astype('float32')`."
            )
        valid, counted = self._valid_and_counted(y, raw_shape, weight, mask)
        if counted is None:
            counted = tf.ones_like(valid)
        if bool(tf.reduce_all(valid | ~counted)):
            return
        y = np.asarray(y)
        labels = self.coded_labels(y, (None, *raw_shape[1:])).numpy()
        labels = labels[tf.broadcast_to(counted, valid.shape).numpy()]
        raise ValueError(
            f"Labels of shape {y.shape}, dtype {y.dtype} and {_described(labels)} do "
            f"not fit: {self.label_advice(raw_shape)}"
        )

    def _valid_and_counted(self, y, raw_shape, weight, mask):
        _refuse_dictionary(y)
        # Labels may have any number of rows, even if the network's batch size is fixed.
        raw_shape = (None, *raw_shape[1:])
        y = self.coded_labels(y, raw_shape)
        counted = self.counted_elements(raw_shape, weight, mask)
        counted = both(counted, self.has_label(y, raw_shape))
        return self.valid_elements(y, raw_shape), counted

    def get_config(self):
        parent = super().get_config() if isinstance(self, keras.layers.Layer) else {}
        return {**parent, "reduction": self.reduction}

    @classmethod
    def from_config(cls, config):
        arguments = {**config}
        is_frozen = arguments.pop("is_frozen", False)
        likelihood = cls(**arguments)
        if is_frozen:
            likelihood.trainable = False
        return likelihood


def config_of_learned(layer: keras.layers.Layer, is_learned: bool) -> dict:
    """What a config says of numbers that the constructor's `trainable` makes learned.

    The layer's attribute `trainable`, by which users freeze them, is kept apart: frozen
    numbers may be thawed again, and those that are not learned never train.
    """
    frozen = {} if layer.trainable else {"is_frozen": True}
    return {"trainable": is_learned, **frozen}


def _refuse_dictionary(y) -> None:
    if isinstance(y, dict):
        raise ValueError(
            f"Got a dictionary of labels, {sorted(y)}, for a network with one output. "
            "Give its labels as they are."
        )


def _described(labels) -> str:
    """The range of labels, for an error; one NaN does not hide the others."""
    is_nan = labels != labels
    known, found = labels[~is_nan], []
    if known.size:
        found.append(f"values from {known.min()} to {known.max()}")
    if is_nan.any():
        found.append(f"{is_nan.sum()} NaN")
    return ", ".join(found)


def _sum_of_rows(elements):
    return tf.reduce_sum(elements, axis=list(range(1, elements.shape.rank)))


def match_targets(y, shape, dtype=None) -> tf.Tensor:
    """Gives real-valued targets the shape of the outputs, [B] becoming [B, 1].

    Raises:
        ValueError: If the shapes differ; broadcasting [B, 1] against [B] would
            compare every row with every other.
    """
    y = tf.convert_to_tensor(y) if dtype is None else tf.cast(y, dtype)
    shape = tf.TensorShape(shape)
    require_rank(y)
    if y.shape.rank == shape.rank - 1 and shape[-1] == 1:
        y = y[..., None]
    if not y.shape.is_compatible_with(shape):
        raise ValueError(
            f"Targets of shape {y.shape} do not match outputs of shape {shape}. Give "
            "one target for each output."
        )
    return y


def require_rank(y) -> None:
    """Raises `ValueError` for labels of unknown rank, which hides their coding."""
    if y.shape.rank is None:
        raise ValueError(
            "The number of axes of the labels is not known. Set it in the data set "
            "with `tf.ensure_shape`."
        )
