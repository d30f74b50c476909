"""What every likelihood p(y|x, g) offers to a model."""

import keras
import numpy as np
import tensorflow as tf


def at_least_float32(values) -> tf.Tensor:
    """Casts half precision to float32 and keeps float64."""
    values = tf.convert_to_tensor(values)
    return values if values.dtype == tf.float64 else tf.cast(values, tf.float32)


class Likelihood:
    """Base of the likelihoods: functions of labels and raw outputs of one draw.

    Rows are on axis 0. Further axes (pixels, tokens, several outputs) belong to one
    example, whose log-likelihood is their sum.

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

    def element_log_prob(self, y, raw) -> tf.Tensor:
        """log p of each element of an example, [B, ...], at least float32."""
        raise NotImplementedError

    def mean(self, raw) -> tf.Tensor:
        """The mean of y for raw outputs: probabilities, or the regression's mean."""
        raise NotImplementedError

    def summarize(self, raws) -> dict[str, tf.Tensor]:
        """The predictive mean and every score, from raw outputs [S, B, ...]."""
        raise NotImplementedError

    def valid_labels(self, y, raw_shape) -> tf.Tensor:
        """A boolean scalar: whether all labels have a meaning."""
        raise NotImplementedError

    def label_advice(self, raw_shape) -> str:
        """One sentence that says what labels are expected."""
        raise NotImplementedError

    # -- of several outputs; see `Joint` ---------------------------------------------

    #: Names of the outputs, where there are several.
    output_names: tuple[str, ...] = ()

    def named_log_probs(self, y, raw) -> dict[str, tf.Tensor]:
        """log p of each output by name, where there are several."""
        return {}

    def unweighted_log_prob(self, y, raw) -> tf.Tensor:
        """log p(y|x, g) of each example, [B], whatever `loss_weights` say."""
        return self.log_prob(y, raw)

    def as_outputs(self, y, outputs):
        """Gives labels the structure of the outputs."""
        return y

    def set_weights_of_outputs(self, weights) -> None:
        """Weighs the outputs against each other; a single one cannot be."""
        if weights is not None:
            raise ValueError(
                f"`loss_weights={weights!r}` weighs several outputs against each "
                "other, and the network has one. Leave it out."
            )

    # -- shared ---------------------------------------------------------------------

    def log_prob(self, y, raw) -> tf.Tensor:
        """Returns log p(y|x, g) of each example, [B], at least float32."""
        elements = _flatten_rows(self.element_log_prob(y, raw))
        reduce = tf.reduce_sum if self.reduction == "sum" else tf.reduce_mean
        return reduce(elements, axis=1)

    def predictive_log_prob(self, log_probs) -> tf.Tensor:
        """Returns log of the mean probability over draws, [B], from [S, B]."""
        num_samples = tf.cast(tf.shape(log_probs)[0], log_probs.dtype)
        return tf.reduce_logsumexp(log_probs, axis=0) - tf.math.log(num_samples)

    def interval(self, raws, level):
        """Returns the bounds of a central interval of y; for regression only."""
        raise ValueError(
            f"`predict_interval` needs a regression likelihood, and this model has "
            f"{type(self).__name__}. `predict_uncertainty` gives its scores."
        )

    def resolved(self, activation, reason: str) -> "Likelihood":
        """Returns the likelihood for a network that ends with `activation`.

        Args:
            activation: The last activation function, or `None` if it is not known.
            reason: Why it is not known.
        """
        return self

    def check_labels(self, y, raw_shape) -> None:
        """Refuses labels without a meaning before any work.

        Args:
            y: Labels, an array.
            raw_shape: Shape of the raw outputs, rows first; entries may be `None`.

        Raises:
            ValueError: If a label is out of range, not finite or of another shape.
        """
        if np.asarray(y).dtype.kind in "OSU":
            raise ValueError(
                f"Labels of dtype {np.asarray(y).dtype} are no numbers: "
                f"{self.label_advice(raw_shape)}"
            )
        if not bool(self.valid_labels(tf.convert_to_tensor(y), raw_shape)):
            y = np.asarray(y)
            raise ValueError(
                f"Labels of shape {y.shape}, dtype {y.dtype} and values from {y.min()} "
                f"to {y.max()} do not fit: {self.label_advice(raw_shape)}"
            )

    def get_config(self):
        parent = super().get_config() if isinstance(self, keras.layers.Layer) else {}
        return {**parent, "reduction": self.reduction}

    @classmethod
    def from_config(cls, config):
        return cls(**config)


def _flatten_rows(elements):
    return tf.reshape(elements, [tf.shape(elements)[0], -1])


def match_targets(y, shape, dtype) -> tf.Tensor:
    """Gives real-valued targets the shape of the outputs, [B] becoming [B, 1].

    Raises:
        ValueError: If the shapes differ; broadcasting [B, 1] against [B] would
            compare every row with every other.
    """
    y, shape = tf.cast(y, dtype), tf.TensorShape(shape)
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
    """Raises `ValueError` for labels of unknown rank: their coding cannot be told."""
    if y.shape.rank is None:
        raise ValueError(
            "The number of axes of the labels is not known. Set it in the data set "
            "with `tf.ensure_shape`."
        )
