"""Files that are never seen half-written, and folders locked by one run."""

import contextlib
import errno
import os
import re
import tokenize
import uuid
from collections.abc import Iterator
from pathlib import Path

from absl import logging

try:
    import fcntl
except ImportError:  # Windows lacks such locks.
    fcntl = None  # type: ignore[assignment]  # A module, or none.

#: Name of a folder's lock file.
LOCK_NAME = ".lock"
#: Errors of NumPy for a file that is no array, whose header is text like Python's.
NO_ARRAY = (ValueError, TypeError, EOFError, SyntaxError, tokenize.TokenError)
#: Errors of file systems without locks, such as some network folders.
_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL)
_UNFINISHED = re.compile(r"\.[0-9a-f]{32}\.(.+)", re.DOTALL)


class FolderInUse(Exception):
    """Another run, in this process or another, is using the folder."""


def local_folder(folder: str | os.PathLike) -> Path:
    """Returns the path of a folder, if it is one of this machine.

    Args:
        folder: The folder. A path would take "gs://bucket" for a folder "gs:" in the
            working directory.

    Raises:
        ValueError: If it is an address, such as "gs://bucket/models".

    Example:
        >>> local_folder("runs/first").parts
        ('runs', 'first')
    """
    if "://" in os.fspath(folder):
        raise ValueError(
            f"{folder} is an address, and what is written here needs a folder of this "
            "machine, where files can be renamed. Give one, and copy it afterwards."
        )
    return Path(folder)


@contextlib.contextmanager
def written_atomically(path: Path) -> Iterator[Path]:
    """Gives a temporary path in the same folder, and moves it to `path` at the end.

    If the block fails, `path` stays as it was and no temporary file is left; if the
    process is killed within it, `path` also stays, and `remove_unfinished` finds the
    rest. Any number of threads and processes may write: each has its own temporary
    file, and the last to finish wins. A moved file has been flushed to disk.

    Args:
        path: The file to be written.

    Yields:
        Where to write, with the ending of `path`, by which writers choose the format.

    Raises:
        OSError: If the block has not written the file, or it cannot be moved.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "notes.txt"
        >>> with written_atomically(path) as temporary:
        ...     _ = temporary.write_text("done")
        >>> path.read_text()
        'done'
    """
    path = Path(path)
    temporary = path.with_name(f".{uuid.uuid4().hex}.{path.name}")
    try:
        yield temporary
        _flush(temporary)
        os.replace(temporary, path)
        _flush_names(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Writes a text file, in UTF-8, completely or not at all.

    Args:
        path: The file to be written.
        text: Its content.

    Raises:
        OSError: If it cannot be written; an earlier file stays.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "notes.txt"
        >>> write_text(path, "done")
        >>> path.read_text()
        'done'
    """
    with written_atomically(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def unfinished_name(path: Path) -> str | None:
    """Returns the final name of a temporary file; `None` for any other file.

    Args:
        path: A file in a folder where `written_atomically` writes.

    Example:
        >>> unfinished_name(Path(".0123456789abcdef0123456789abcdef.model.keras"))
        'model.keras'
        >>> unfinished_name(Path("model.keras")) is None
        True
    """
    match = _UNFINISHED.fullmatch(Path(path).name)
    return match[1] if match else None


def remove_unfinished(folder: Path) -> None:
    """Removes leftovers of killed processes from a folder nobody else writes to.

    Args:
        folder: The folder, such as one that is `locked`, without its subfolders.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> (folder / ".0123456789abcdef0123456789abcdef.a.txt").touch()
        >>> remove_unfinished(folder)
        >>> list(folder.iterdir())
        []
    """
    for path in Path(folder).iterdir():
        if unfinished_name(path) and (path.is_symlink() or path.is_file()):
            path.unlink()


@contextlib.contextmanager
def locked(folder: Path, create: bool = True) -> Iterator[None]:
    """Locks a folder for one run; a second run is refused.

    The lock ends with the block, or with the process: a killed run leaves none behind.
    Its file, `.lock`, stays in the folder and means nothing by itself; deleting it
    could let two runs in at once. Where there are no locks, on some network folders and
    on Windows, a warning says so and nobody is refused.

    Args:
        folder: An existing folder.
        create: Whether to create the lock file if it is missing.

    Raises:
        FolderInUse: If another run is using the folder.
        OSError: If the folder cannot be written to; `FileNotFoundError` if the lock
            file is missing and not to be created.

    Example:
        >>> import tempfile
        >>> folder = tempfile.mkdtemp()
        >>> with locked(folder), locked(folder):  # doctest: +ELLIPSIS
        ...     pass
        Traceback (most recent call last):
        ...
        bhn_tf.files.FolderInUse: Another run works in ...
    """
    # Opened for writing, as network locks require, but never written to.
    flags = os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | (os.O_CREAT if create else 0)
    file = os.open(Path(folder) / LOCK_NAME, flags, 0o666)
    try:
        _lock(file, folder)
        yield
    finally:
        os.close(file)


def _lock(file: int, folder: Path) -> None:
    try:
        if fcntl is None:
            raise OSError(errno.ENOSYS, "No locks")
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise FolderInUse(
            f"Another run works in {folder}. Wait for its end, or give another folder."
        ) from error
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        logging.warning("%s has no locks: see that only one run uses it.", folder)


def _flush(path: Path) -> None:
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def _flush_names(folder: Path) -> None:
    # Errors are ignored where folders cannot be flushed: at worst, a power cut brings
    # back the old file.
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
