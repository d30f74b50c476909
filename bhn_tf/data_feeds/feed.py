"""What every kind of data offers to a model."""

import dataclasses

import keras
import numpy as np
import tensorflow as tf

#: What is said of arrays without a single row.
NO_ROW = "The data `x` are empty: no rows. Give at least one."

#: What is said of a data set without a single batch.
NO_BATCH = "The data set yields no batch: it is empty, or a filter removed all of it."

#: What is said of data that do not tell how many examples they are.
HOW_TO_GIVE_N = (
    "Say how many training examples there are: `BayesianHypernet(..., "
    "num_examples=N)` or `model.num_examples = N`."
)

#: What is said of data that yield one row at a time.
HOW_TO_GIVE_ROWS = (
    "A `tf.data.Dataset` of single rows needs `.batch(32)`, and what else yields "
    "single rows has to yield batches of them; one row alone is a batch of one, "
    "`x[None]`."
)


class Feed:
    """Data of one kind, as `fit`, `evaluate` and `predict` take them.

    Args:
        x: Inputs, or what yields whole batches.
        y: Labels, where `x` does not yield them.
        sample_weight: Weights, where `x` does not yield them.

    Attributes:
        num_trained_batches: How many batches the training takes in all; `None` where
            it takes what there is.
    """

    num_trained_batches: int | None = None

    def __init__(self, x, y=None, sample_weight=None):
        self.x = x
        self.y, self.sample_weight = _of_one_output(y, sample_weight)

    def spec(self):
        """Returns `(x, y, sample_weight)` with a `LeafSpec` for each array."""
        return keras.tree.map_structure(leaf_spec, self.first_batch())

    @property
    def num_rows(self) -> int | None:
        """Rows of arrays; `None` of what yields batches."""
        return None

    @property
    def can_be_shuffled(self) -> bool:
        """Whether Keras can take rows or batches in any order."""
        return False

    def first_batch(self):
        """Returns `(x, y, sample_weight)` of what has shape and dtype of a batch."""
        raise NotImplementedError

    def refuse_empty(self) -> None:
        """Raises `ValueError` where there is no row, or no batch."""

    def count(self, validation_split: float = 0.0) -> int:
        """Returns N, the number of training examples of an epoch.

        Args:
            validation_split: Share of arrays that `fit` sets aside.

        Raises:
            ValueError: If the data are endless, can be read only once, or are empty.
        """
        raise NotImplementedError

    def labels_and_weights(self, padding=None):
        """Yields the labels of all batches, their weights and masks, in one pass.

        Args:
            padding: Maps inputs to the masks of the outputs; `None` where there are
                none, so that inputs are not looked at.

        Raises:
            ValueError: If the data are endless or can be read only once.
        """
        raise targets_not_read()

    def checked(self, checks) -> "Feed":
        """Returns the feed with every batch checked, at once or as it comes.

        Args:
            checks: A `BatchChecks`.
        """
        raise NotImplementedError

    def as_tensors(self) -> "Feed":
        """Returns arrays as one batch of tensors, which compiled functions take.

        Raises:
            ValueError: If the data yield batches.
        """
        raise ValueError(
            f"Expected the arrays of one batch, got a {type(self.x).__name__}, which "
            "yields batches. Give one of them, or use `fit`, `evaluate` or `predict`."
        )


def targets_not_read() -> ValueError:
    """The error of data whose targets cannot be looked at ahead of training."""
    return ValueError(
        "The targets of such data cannot be read before training. Tell the "
        "likelihood their units: `model.likelihood.adapt(y)`."
    )


@dataclasses.dataclass(frozen=True)
class LeafSpec:
    """Shape, rows first, and dtype of an array of any library, or of a tensor."""

    shape: tuple
    dtype: str


def leaf_spec(leaf) -> LeafSpec | None:
    """Returns shape and dtype of an array of any library; `None` of `None`.

    Raises:
        ValueError: If it has no axis of rows, or nobody knows how many axes it has.
    """
    if leaf is None:
        return None
    shape = getattr(leaf, "shape", ())
    if isinstance(shape, tf.TensorShape) and shape.rank is None:
        raise ValueError(
            "The data set does not know how many axes its elements have, as after "
            "`tf.numpy_function`. Set them in the function that is mapped: "
            "`x = tf.ensure_shape(x, [None, 28, 28])`, rows first, and so for labels."
        )
    if len(shape) == 0:
        raise ValueError(
            f"The data hold a number without an axis of rows. {HOW_TO_GIVE_ROWS}"
        )
    if is_text(leaf):
        return LeafSpec(tuple(leaf.shape), "string")
    dtypes = _dtypes(leaf)
    dtype = np.result_type(*dtypes) if len(dtypes) > 1 else dtypes[0]
    return LeafSpec(tuple(leaf.shape), keras.backend.standardize_dtype(dtype))


def is_text(leaf) -> bool:
    """Whether an array holds text.

    It comes as objects, with its length in the dtype, or in a dtype of pandas.
    """
    return any(getattr(dtype, "kind", "") in tuple("OSU") for dtype in _dtypes(leaf))


def _dtypes(leaf) -> list:
    """Dtypes of an array, or of the columns of a frame."""
    is_frame = hasattr(leaf, "dtypes") and not hasattr(leaf, "dtype")
    return list(leaf.dtypes) if is_frame else [leaf.dtype]


def unpacked(batch) -> tuple:
    """Returns `(x, y, sample_weight)` of a batch as data sets yield it."""
    x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(batch)
    return x, *_of_one_output(y, sample_weight)


def inputs_of(batch):
    """Returns the inputs of a batch, which may come with labels and weights.

    An optional input that is not given is `None`.
    """
    x, _, _ = keras.utils.unpack_x_y_sample_weight(batch)
    return keras.tree.map_structure(
        lambda leaf: None if isinstance(leaf, tf.experimental.Optional) else leaf, x
    )


def _of_one_output(y, sample_weight) -> tuple:
    """Labels and weights as `of_one_output`; of several outputs, weights stay."""
    y = of_one_output(y)
    is_of_several = keras.tree.is_nested(y)
    return y, sample_weight if is_of_several else of_one_output(sample_weight)


def of_one_output(values):
    """Returns labels or weights without a list of one around them.

    Keras takes `[y]` for `y`; with a single output both mean the same.
    """
    is_list_of_one = isinstance(values, list | tuple) and len(values) == 1
    return values[0] if is_list_of_one else values


def leaves_of(values) -> list:
    """Returns the arrays of a structure, without those that are not given (`None`)."""
    return [leaf for leaf in keras.tree.flatten(values) if leaf is not None]


def num_rows(x) -> int:
    """Returns the number of rows of a batch, or of all data, in arrays."""
    return int(leaves_of(x)[0].shape[0])
