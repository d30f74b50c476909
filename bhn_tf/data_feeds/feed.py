"""What every kind of data offers to a model."""

import dataclasses

import keras
import numpy as np
import tensorflow as tf

#: The error of arrays without rows.
NO_ROW = "The data `x` are empty: no rows. Give at least one."

#: The error of a data set without batches.
NO_BATCH = "The data set yields no batch: it is empty, or a filter removed all of it."

#: The advice for data whose number of examples is unknown.
HOW_TO_GIVE_N = (
    "Say how many training examples there are: `BayesianHypernet(..., "
    "num_examples=N)` or `model.num_examples = N`."
)

#: The advice for data whose targets are not to be read before training.
HOW_TO_GIVE_UNITS = (
    "Tell the likelihood the units of the targets: `model.likelihood.adapt(y)`."
)

#: The error of data that yield nothing when training begins.
NO_BATCH_LEFT = (
    f"{NO_BATCH} Or it can be read only once, and was read before training, for N or "
    "for the units of its targets: give a data set that can be read again, or make it "
    f"anew. {HOW_TO_GIVE_N} {HOW_TO_GIVE_UNITS}"
)

#: The advice for data that yield one row at a time.
HOW_TO_GIVE_ROWS = (
    "A `tf.data.Dataset` of single rows needs `.batch(32)`, and what else yields "
    "single rows has to yield batches of them; one row alone is a batch of one, "
    "`x[None]`."
)


class Feed:
    """Data of one kind, as `fit`, `evaluate` and `predict` take them.

    Args:
        x: Inputs, or an object that yields whole batches.
        y: Labels, if `x` does not yield them.
        sample_weight: Weights, if `x` does not yield them.

    Attributes:
        num_trained_batches: Total number of batches that training takes; `None` if it
            takes all there are.
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
        """Number of rows of arrays; `None` for data that yield batches."""
        return None

    @property
    def can_be_shuffled(self) -> bool:
        """Whether Keras can take rows or batches in any order."""
        return False

    def first_batch(self):
        """Returns `(x, y, sample_weight)` with the shapes and dtypes of a batch."""
        raise NotImplementedError

    def refuse_empty(self) -> None:
        """Raises `ValueError` if there is known to be no row, or no batch.

        Some data show only when they are read that they yield no batch.
        """

    def count(self, validation_split: float = 0.0) -> int:
        """Returns N, the number of training examples in an epoch.

        Args:
            validation_split: Share of arrays that `fit` sets aside.

        Raises:
            ValueError: If the data are endless, can be read only once, or are empty.
        """
        raise NotImplementedError

    def labels_and_weights(self, padding=None):
        """Yields the labels of all batches, their weights and masks, in one pass.

        Args:
            padding: Maps inputs to the masks of the outputs; `None` if there are none,
                and inputs are then not read.

        Raises:
            ValueError: If the data are endless or can be read only once.
        """
        raise targets_not_read()

    def checked(self, checks) -> "Feed":
        """Returns the feed with every batch checked, now or when it is read.

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
    """The error of data whose targets cannot be read before training."""
    return ValueError(
        f"The targets of such data cannot be read before training. {HOW_TO_GIVE_UNITS}"
    )


@dataclasses.dataclass(frozen=True)
class LeafSpec:
    """Shape, rows first, and dtype of an array of any library, or of a tensor."""

    shape: tuple
    dtype: str


def leaf_spec(leaf) -> LeafSpec | None:
    """Returns shape and dtype of an array of any library; `None` for `None`.

    Raises:
        ValueError: If it has no axis of rows, or an unknown number of axes.
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

    Text has dtype object, one with or without its length, or one of pandas.
    """
    return any(getattr(dtype, "kind", "") in tuple("OSTU") for dtype in _dtypes(leaf))


def _dtypes(leaf) -> list:
    """Dtypes of an array, or of the columns of a frame."""
    is_frame = hasattr(leaf, "dtypes") and not hasattr(leaf, "dtype")
    return list(leaf.dtypes) if is_frame else [leaf.dtype]


def unpacked(batch) -> tuple:
    """Returns `(x, y, sample_weight)` of a batch that a data set yields."""
    x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(batch)
    return x, *_of_one_output(y, sample_weight)


def unpacked_validation(validation_data) -> tuple:
    """Returns `(x, y, sample_weight)` of what is given as `validation_data`.

    It is a tuple or list of arrays; or yields batches, and is then itself `x`.
    """
    if isinstance(validation_data, tuple | list):
        return unpacked(validation_data)
    return validation_data, None, None


def inputs_of(batch):
    """Returns the inputs of a batch, which may come with labels and weights.

    An optional input that is missing is `None`.
    """
    x, _, _ = keras.utils.unpack_x_y_sample_weight(batch)
    return keras.tree.map_structure(
        lambda leaf: None if isinstance(leaf, tf.experimental.Optional) else leaf, x
    )


def _of_one_output(y, sample_weight) -> tuple:
    """`of_one_output` of labels and weights; with several outputs weights stay."""
    y = of_one_output(y)
    is_of_several = keras.tree.is_nested(y)
    return y, sample_weight if is_of_several else of_one_output(sample_weight)


def of_one_output(values):
    """Returns labels or weights without a one-element list around them.

    Keras takes `[y]` for `y`; with a single output both mean the same.
    """
    is_list_of_one = isinstance(values, list | tuple) and len(values) == 1
    return values[0] if is_list_of_one else values


def leaves_of(values) -> list:
    """Returns the arrays of a structure, without missing ones (`None`)."""
    return [leaf for leaf in keras.tree.flatten(values) if leaf is not None]


def num_rows(x) -> int:
    """Returns the number of rows of arrays: a batch, or all data."""
    return int(leaves_of(x)[0].shape[0])
