"""Image classification sets that TensorFlow Datasets (TFDS) has prepared on disk.

TFDS's own `load` may query a cloud bucket before it looks at the disk. Here a set is
opened from its folder: nothing else is read, and nothing is downloaded.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import numpy as np
import tensorflow as tf

from bhn_tf.data.images import to_unit_range
from bhn_tf.data.prepared_folders import prepare_command
from bhn_tf.data.sources import Arrays, Source
from bhn_tf.environment import require

_BATCH = 1_024


def import_tensorflow_datasets() -> ModuleType:
    """The package tensorflow_datasets, which the rest of the library does not need.

    Returns:
        The imported module.

    Raises:
        ImportError: with the command that installs it, if it is not there.

    Example:
        >>> import_tensorflow_datasets().__name__
        'tensorflow_datasets'
    """
    require("tensorflow_datasets", "'bhn-tf[trainers]'")
    import tensorflow_datasets

    return tensorflow_datasets


def registered_names() -> list[str]:
    """Names of the sets that the installed TFDS can prepare; no network is used.

    Returns:
        The names, without configurations and versions.

    Raises:
        ImportError: if TFDS is not installed.

    Example:
        >>> "mnist" in registered_names()
        True
    """
    tensorflow_datasets = import_tensorflow_datasets()
    return tensorflow_datasets.list_builders(with_community_datasets=False)


def prepared_source(name: str, folder: Path, root: Path) -> Source:
    """Opens a prepared set.

    Args:
        name: the name under which it was asked for.
        folder: the folder of one prepared version, from `find_prepared`.
        root: the folder that holds prepared sets, for advice in errors.

    Returns:
        A `Source` with the splits that TFDS wrote, which also takes TFDS's slices such
        as `"train[:500]"`. Images keep their size, labels are int32. Its `read` raises
        `ValueError` or `FileNotFoundError` rather than return part of a split.

    Raises:
        ValueError: if the description of the set is damaged, or if it is not a set of
            images of one size with one class each.

    Example:
        >>> root = Path("data")
        >>> folder = root / "mnist" / "3.0.1"
        >>> source = prepared_source("mnist", folder, root)  # doctest: +SKIP
        >>> source.splits  # doctest: +SKIP
        ('train', 'test')
    """
    prepared = _PreparedSet(name, folder, root)
    return Source(prepared.splits, prepared.read, allows_slices=True)


class _PreparedSet:
    def __init__(self, name: str, folder: Path, root: Path):
        self.name = name
        self.folder = folder
        self.advice = (
            f"Nothing was deleted: move {folder} away and prepare the set again with "
            f"`{prepare_command(name, root)}`."
        )
        self.builder = self._open()
        self.splits = tuple(self.builder.info.splits)
        self.image_key, self.label_key, self.shape = self._image_and_label()

    def read(self, splits: Sequence[str]) -> dict[str, Arrays]:
        return {split: self._read_split(split) for split in splits}

    def _open(self):
        tensorflow_datasets = import_tensorflow_datasets()
        try:
            builder = tensorflow_datasets.builder_from_directory(self.folder)
            # Both are read lazily; this reveals a damaged file here.
            _ = builder.info.features, builder.info.splits
            return builder
        # Damaged JSON files can make TFDS raise any kind of error.
        except Exception as error:
            raise ValueError(
                f"The description of the data set {self.name!r} in {self.folder} "
                f"cannot be read: {_first_line(error)} {self.advice}"
            ) from error

    def _image_and_label(self) -> tuple[str, str, tuple[int, int, int]]:
        kinds = import_tensorflow_datasets().features
        features = self.builder.info.features
        # A few sets have nested or three keys; `str` keeps them comparable.
        keys = self.builder.info.supervised_keys or ("image", "label")
        image_key, label_key = str(keys[0]), str(keys[-1])
        is_named = isinstance(features, kinds.FeaturesDict)
        named = dict(features.items()) if is_named else {}
        if not (
            isinstance(named.get(image_key), kinds.Image)
            and isinstance(named.get(label_key), kinds.ClassLabel)
        ):
            raise ValueError(
                f"The data set {self.name!r} is no image classification set: an image "
                f"and a class label are needed, it has {sorted(named)}. Read it "
                "with tensorflow_datasets and pass the arrays to `fit` yourself."
            )
        shape, dtype = features[image_key].shape, features[image_key].np_dtype
        if None in shape or dtype != np.uint8:
            raise ValueError(
                f"The images of {self.name!r} have the shape {list(shape)} and the "
                f"type {np.dtype(dtype).name}; images of one fixed size and of type "
                "uint8 are needed, since they become one array with values in [0, 1]. "
                "Read it with tensorflow_datasets and resize the images yourself."
            )
        return image_key, label_key, shape

    def _read_split(self, split: str) -> Arrays:
        try:
            info = self.builder.info.splits[split]
        except Exception as error:
            raise ValueError(
                f"The data set {self.name!r} in {self.folder} has no split {split!r}. "
                f"It has {list(self.splits)}; slices such as "
                f"{self.splits[0] + '[:500]'!r} work too. ({_first_line(error)})"
            ) from error
        if info.num_examples < 1:
            raise ValueError(
                f"The split {split!r} of the data set {self.name!r} selects no "
                f"examples; there are {self._sizes()}."
            )
        missing = [file for file in info.filepaths if not Path(file).is_file()]
        if missing:
            raise FileNotFoundError(
                f"The data set {self.name!r} is incomplete: {len(missing)} of the "
                f"{len(info.filepaths)} files of split {split!r} are missing from "
                f"{self.folder}, among them {Path(missing[0]).name}. {self.advice}"
            )
        try:
            x, y = self._read_arrays(split, info.num_examples)
        except (tf.errors.OpError, _WrongNumber) as error:
            raise ValueError(
                f"The files of split {split!r} of the data set {self.name!r} in "
                f"{self.folder} are damaged: {_first_line(error)} {self.advice}"
            ) from error
        if y.min() < 0:
            raise ValueError(
                f"Split {split!r} of the data set {self.name!r} was published without "
                "labels (they are -1), so it cannot be trained or measured on. Choose "
                f"another of {list(self.splits)}."
            )
        return x, y

    def _read_arrays(self, split: str, num_examples: int) -> Arrays:
        dataset = self.builder.as_dataset(
            split=split,
            shuffle_files=False,
            # One file after the other keeps rows in the order of the files. Rows are
            # counted below, where the error can say what to do.
            read_config=import_tensorflow_datasets().ReadConfig(
                interleave_cycle_length=1, try_autocache=False, assert_cardinality=False
            ),
        )
        # The shapes of other features may differ by example, so they must be dropped
        # before batching.
        pairs = dataset.map(lambda row: (row[self.image_key], row[self.label_key]))
        # Filled batch by batch, since stacking at the end would need twice the memory.
        x = np.empty((num_examples, *self.shape), np.float32)
        y = np.empty(num_examples, np.int32)
        end = 0
        for images, labels in pairs.batch(_BATCH).prefetch(2).as_numpy_iterator():
            start, end = end, end + len(labels)
            if end > num_examples:
                break
            to_unit_range(images, out=x[start:end])
            y[start:end] = labels
        if end != num_examples:
            found = "more" if end > num_examples else f"{end:,}"
            raise _WrongNumber(f"{num_examples:,} examples expected, {found} found.")
        return x, y

    def _sizes(self) -> str:
        splits = self.builder.info.splits
        return ", ".join(f"{splits[s].num_examples:,} in {s!r}" for s in self.splits)


class _WrongNumber(Exception):
    """A file ends too early or too late."""


def _first_line(error: Exception) -> str:
    """The first line of an error as a sentence; TFDS and TensorFlow write pages."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    without_operation_names = re.sub(r"\{\{.*?\}\}|\[Op:.*", "", lines[0])
    return without_operation_names.strip().rstrip(".") + "."
