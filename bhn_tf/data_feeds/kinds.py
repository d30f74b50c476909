"""Recognises the kinds of data; nothing else in the library does."""

import keras
import numpy as np
import tensorflow as tf

from bhn_tf.data_feeds.array_feed import ArrayFeed
from bhn_tf.data_feeds.dataset_feed import DatasetFeed, DistributedFeed
from bhn_tf.data_feeds.feed import Feed, is_text, leaves_of
from bhn_tf.data_feeds.frames import arrays_of_frames
from bhn_tf.data_feeds.generator_feed import GeneratorFeed
from bhn_tf.data_feeds.loaders import dataset_of_loader, is_loader
from bhn_tf.data_feeds.py_dataset_feed import PyDatasetFeed


def feed_of(x, y=None, sample_weight=None) -> Feed:
    """Returns the feed for data, whatever they are.

    Args:
        x: An array of any library (NumPy, TensorFlow, pandas, SciPy, JAX, PyTorch) or
            a structure of them; or an object that yields batches: `tf.data.Dataset`,
            `keras.utils.PyDataset`, a Python generator, a PyTorch or Grain loader.
        y: Labels of arrays.
        sample_weight: Weights of arrays.

    Raises:
        ValueError: If Keras takes no such data; it says what to give instead.
    """
    if isinstance(x, tf.data.Dataset):
        return DatasetFeed(x, y, sample_weight)
    if isinstance(x, tf.distribute.DistributedDataset):
        return DistributedFeed(x, y, sample_weight)
    if isinstance(x, keras.utils.PyDataset):
        return PyDatasetFeed(x, y, sample_weight)
    if hasattr(x, "__next__"):
        return GeneratorFeed(x, y, sample_weight)
    if is_loader(x):
        return DatasetFeed(dataset_of_loader(x), y, sample_weight)
    named = {"x": x, "y": y, "sample_weight": sample_weight}
    for name, values in named.items():
        _refuse_no_arrays(name, values)
    x, y, sample_weight = map(arrays_of_frames, named, named.values())
    return ArrayFeed(keras.tree.map_structure(_text_as_tensor, x), y, sample_weight)


def labelled_rows(x, y, call: str, reason: str) -> Feed:
    """Returns the feed of arrays with labels, which some calls need whole.

    Args:
        x, y: What was given.
        call: How the call takes arrays, such as "diagnose(model, x, y)".
        reason: Why it needs them.

    Raises:
        ValueError: If they are no arrays, or labels are missing.
    """
    feed = feed_of(x, y)
    if feed.num_rows is None or y is None:
        raise ValueError(f"Give the rows as arrays, `{call}`: {reason}.")
    return feed


def _text_as_tensor(leaf):
    """Text as a tensor: with several axes Keras takes it in no other form."""
    if leaf is None or tf.is_tensor(leaf) or not is_text(leaf):
        return leaf
    try:
        return tf.constant(np.asarray(leaf, dtype=object), tf.string)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"`x` holds a {type(leaf).__name__} of objects that are not all text "
            "(numbers, None or NaN among them). Give numbers as `x.astype('float32')`, "
            "and columns of several kinds as a dictionary of inputs by name."
        ) from error


def _refuse_no_arrays(name, values) -> None:
    leaves = leaves_of(values)
    for leaf in leaves:
        if hasattr(leaf, "shape") and tuple(leaf.shape) == ():
            raise ValueError(
                f"`{name}` holds a single number, and data have an axis of rows. Give "
                "an array [rows, ...]."
            )
        has_dtype = hasattr(leaf, "dtype") or hasattr(leaf, "dtypes")
        is_array = hasattr(leaf, "shape") and has_dtype
        if not is_array or type(leaf).__module__.startswith("polars"):
            advice = f"`np.asarray({name})`"
            if type(leaf).__module__.startswith("polars"):
                advice = f"`{name}.to_numpy()`, which may copy"
            raise ValueError(
                f"`{name}` holds a {type(leaf).__name__}, which Keras does not take "
                f"as data. Give {advice}."
            )
        _refuse_other_dtypes(name, leaf)
    if name == "x" and not leaves:
        raise ValueError("The data `x` hold no array. Give inputs with rows first.")


def _refuse_other_dtypes(name, leaf) -> None:
    """Refuses structured arrays, arrays of times, and nullable arrays of pandas."""
    if hasattr(leaf, "dtypes") or is_text(leaf):
        return
    try:
        keras.backend.standardize_dtype(leaf.dtype)
    except ValueError as error:
        advice = f"numbers, such as `{name}.astype('float64')`"
        if getattr(leaf.dtype, "names", None):
            advice = "its fields as a dictionary, one input each, or side by side, as "
            advice += f"`numpy.lib.recfunctions.structured_to_unstructured({name})`"
        raise ValueError(
            f"`{name}` holds a {type(leaf).__name__} of dtype {leaf.dtype}, which "
            f"Keras does not take. Give {advice}."
        ) from error
