"""Where TensorFlow Datasets (TFDS) keeps a prepared set: `<root>/<name>/<version>`."""

import json
import re
import shlex
from pathlib import Path

# TFDS writes it last: a version folder without it is incomplete.
_DESCRIPTION = "dataset_info.json"


def find_prepared(name: str, root: Path) -> Path | None:
    """The folder of the newest completely prepared version of a set.

    Args:
        name: `"mnist"`, `"emnist/letters"` or, for one version, `"mnist:3.0.1"`.
        root: the folder that holds prepared sets.

    Returns:
        `root/<name>/<version>`, or None if there is none.

    Example:
        >>> find_prepared("mnist", Path("no/such/folder")) is None
        True
    """
    name, _, version = name.partition(":")
    for folder in version_folders(root / name):
        is_complete = (folder / _DESCRIPTION).is_file()
        if is_complete and version in ("", folder.name):
            return folder
    return None


def version_folders(folder: Path) -> list[Path]:
    """Sub-folders named like a version, such as `3.0.1`, the newest first.

    Args:
        folder: the folder of a set or of one of its configurations.

    Returns:
        The folders, complete or not; none if `folder` does not exist.

    Example:
        >>> version_folders(Path("no/such/folder"))
        []
    """
    found = [f for f in sub_folders(folder) if re.fullmatch(r"\d+\.\d+\.\d+", f.name)]
    return sorted(found, key=lambda f: [int(n) for n in f.name.split(".")])[::-1]


def unfinished_folders(folder: Path) -> list[Path]:
    """What an interrupted preparation has left behind.

    Args:
        folder: the folder of a set or of one of its configurations.

    Returns:
        Version folders without a description and TFDS's temporary folders.

    Example:
        >>> unfinished_folders(Path("no/such/folder"))
        []
    """
    versions = version_folders(folder)
    cut_off = [f for f in versions if not (f / _DESCRIPTION).is_file()]
    return cut_off + [f for f in sub_folders(folder) if "incomplete" in f.name]


def sub_folders(folder: Path) -> list[Path]:
    """The folders directly inside a folder, by name, without hidden ones.

    Args:
        folder: any path.

    Returns:
        The folders in alphabetical order; none if `folder` is not a folder.

    Example:
        >>> sub_folders(Path("no/such/folder"))
        []
    """
    if not folder.is_dir():
        return []
    return sorted(f for f in folder.iterdir() if f.is_dir() and f.name[0] != ".")


def prepare_command(name: str, root: Path) -> str:
    """The shell command that downloads and prepares a set, for error messages.

    Args:
        name: the set, with its configuration if it has some.
        root: the folder that is to hold it.

    Returns:
        A command line.

    Example:
        >>> print(prepare_command("mnist", Path("data")))
        python -c 'import tensorflow_datasets as t; t.load("mnist", data_dir="data")'
    """
    # Not `tfds build`: that program needs Apache Beam, which TFDS does not install.
    call = f"t.load({json.dumps(name)}, data_dir={json.dumps(str(root))})"
    return "python -c " + shlex.quote(f"import tensorflow_datasets as t; {call}")
