"""The images of an experiment: those that are learned, and anomalies."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bhn_tf import data
from trainers.config import CommonConfig, UsageProblem

# Sets that are black on white, while digits are white on black.
_INVERTED = ("omniglot",)
_NOISE = {"uniform": data.uniform, "gaussian": data.gaussian}
_SMOKE_ROWS = {"train": 512, "test": 1000}


def set_name(name: str) -> str:
    """What results call a data set: for a folder, the last part of its path."""
    return Path(name).name


def require_own_names(names: Sequence[str], flag_name: str, taken=()) -> None:
    """Refuses two sets that would have one name in results.

    Args:
        names: The sets that a flag names.
        flag_name: The flag.
        taken: Names that results give to others.

    Raises:
        UsageProblem: If a name is there twice, or taken.
    """
    seen = set(taken)
    for name in map(set_name, names):
        if name in seen:
            others = f", and none of {', '.join(taken)}" if taken else ""
            raise UsageProblem(
                f"--{flag_name}={','.join(names)}: {name!r} is the name of two sets. "
                f"Each needs its own{others}."
            )
        seen.add(name)


def num_classes(splits: dict) -> int:
    """C of what `load_splits` returned."""
    return 1 + int(max(splits[name][1].max() for name in ("train", "test")))


def load_splits(config: CommonConfig) -> dict:
    """The rows of --dataset, `{"train": (x, y), "test": (x, y)}`.

    A folder of class folders has no split of its own: every fifth row is for testing.
    At --scale=smoke there are only some rows.

    Raises:
        UsageProblem: If the set cannot be read, has no images, has no training and
            test rows, or has a single class.
    """
    splits = load_named(config.dataset, config, "dataset")
    if set(splits) == {"all"}:
        x, y = splits["all"]
        is_test = np.arange(len(x)) % 5 == 4
        splits = {"train": (x[~is_test], y[~is_test]), "test": (x[is_test], y[is_test])}
    if not {"train", "test"} <= set(splits):
        raise UsageProblem(
            f"--dataset={config.dataset} has the splits {sorted(splits)}; 'train' and "
            "'test' are needed."
        )
    splits = {name: splits[name] for name in ("train", "test")}
    if splits["train"][0].ndim != 4:
        raise UsageProblem(f"--dataset={config.dataset} holds no images of classes.")
    if num_classes(splits) < 2:
        raise UsageProblem(
            f"--dataset={config.dataset} has one class; at least two are needed to "
            "tell rows apart."
        )
    if config.is_smoke:
        for name, (x, y) in splits.items():
            rows = evenly(len(x), _SMOKE_ROWS[name])
            splits[name] = (x[rows], y[rows])
    return splits


def load_anomalies(
    config: CommonConfig, names: Sequence[str], shape, num_rows: int
) -> dict:
    """Images that are not of --dataset, in the shape of its images.

    Args:
        config: Where the data are.
        names: Names for `bhn_tf.data.load`, or folders of class folders of images.
        shape: Shape [h, w, c] of the data set's images.
        num_rows: Largest number of rows of a set.

    Returns:
        `set_name` of each -> images [rows, h, w, c].

    Raises:
        UsageProblem: If a set cannot be read, or two share a name.
    """
    require_own_names(names, "anomalies", ("train", "test", set_name(config.dataset)))
    return {
        set_name(name): _NOISE[name](num_rows, shape)
        if name in _NOISE
        else _images(name, config, shape, num_rows)
        for name in names
    }


def _images(name: str, config: CommonConfig, shape, num_rows: int) -> np.ndarray:
    try:
        # Sets that can be sliced may be large, and are in random order.
        x = load_named(name, config, "anomalies", f"test[:{num_rows}]")[0]
    except UsageProblem:
        splits = load_named(name, config, "anomalies")
        x = splits.get("test", next(iter(splits.values())))[0]
        # Rows of a folder are ordered by class.
        x = x[evenly(len(x), num_rows)]
    try:
        return data.as_images(1 - x if name in _INVERTED else x, *shape)
    except ValueError as error:
        raise UsageProblem(
            f"--anomalies={name} cannot be brought to the shape {tuple(shape)} of "
            f"--dataset={config.dataset}: {error}"
        ) from error


def evenly(num_rows: int, wanted: int) -> np.ndarray:
    """Indices of rows at equal distances, in order, at most `wanted` of them."""
    wanted = min(num_rows, wanted)
    return np.arange(wanted) * num_rows // wanted


def load_named(name: str, config: CommonConfig, flag_name: str, split=None):
    """Reads the set that a flag names; see `bhn_tf.data.load`.

    Raises:
        UsageProblem: If it cannot be read; names the flag.
    """
    try:
        return data.load(name, split, data_dir=config.data_dir or None)
    except (ValueError, OSError, ImportError) as error:
        raise UsageProblem(
            f"--{flag_name}={name} --data_dir={config.data_dir}: {error}"
        ) from error
