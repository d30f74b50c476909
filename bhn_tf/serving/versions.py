"""Versions of a served model: whole folders with integer names."""

import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import tensorflow as tf

from bhn_tf.files import local_folder


@contextlib.contextmanager
def new_version(directory) -> Iterator["NewVersion"]:
    """Opens a version that becomes visible when it is finished.

    A server looks only for integers, so it does not see the folder `.unfinished-…` in
    which a version is written. One left behind by a killed process can be deleted.

    Args:
        directory: Folder of versions; created if it does not exist.

    Yields:
        A `NewVersion`, whose `path` is where to write, and afterwards the version's.

    Raises:
        ValueError: If `directory` is an address, such as "gs://bucket/models".

    Example:
    ```python
    with new_version("saved_models/digits") as version:
        tf.saved_model.save(module, version.path)
    print(version.path)  # saved_models/digits/1
    ```
    """
    directory = local_folder(directory)
    directory.mkdir(parents=True, exist_ok=True)
    version = NewVersion(Path(tempfile.mkdtemp(prefix=".unfinished-", dir=directory)))
    try:
        yield version
        # A server may run as another user.
        os.chmod(version.path, 0o755)
        version.path = _publish(version.path, directory)
    except BaseException:
        shutil.rmtree(version.path, ignore_errors=True)
        raise


def latest_version(folder) -> str:
    """Returns the newest version that can be loaded.

    A version without its graph, which may be half copied, is skipped.

    Args:
        folder: A folder of versions, on any file system that TensorFlow knows, or a
            single version.

    Raises:
        FileNotFoundError: If there is none.

    Example:
    ```python
    latest_version("saved_models/digits")  # "saved_models/digits/1"
    ```
    """
    folder = os.fspath(folder)
    if _has_graph(folder):
        return folder
    names = tf.io.gfile.listdir(folder) if tf.io.gfile.isdir(folder) else []
    versions = [name.rstrip("/") for name in names]
    versions = [name for name in versions if re.fullmatch("[0-9]+", name)]
    for version in sorted(versions, key=int, reverse=True):
        path = os.path.join(folder, version)
        if _has_graph(path):
            return path
    raise FileNotFoundError(f"{folder} holds no SavedModel and no version, such as 1/.")


def _has_graph(path) -> bool:
    return tf.io.gfile.exists(os.path.join(path, "saved_model.pb"))


class NewVersion:
    """Where a version is."""

    def __init__(self, path: Path):
        self.path = path


def _publish(unfinished: Path, directory: Path) -> Path:
    """Renames a finished version to the next free integer."""
    while True:
        names = [path.name for path in directory.iterdir()]
        versions = [int(name) for name in names if re.fullmatch("[0-9]+", name)]
        target = directory / str(max(versions, default=0) + 1)
        try:
            # Renaming onto a version that another process has just made fails.
            os.rename(unfinished, target)
        except OSError:
            if not target.exists():
                raise
        else:
            return target
