"""One process at a time in a folder."""

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path

from absl import logging

try:
    import fcntl
except ImportError:  # Windows has no such locks.
    fcntl = None  # type: ignore[assignment]  # A module, or none.

LOCK_NAME = ".lock"
#: What file systems answer that have no locks, as some network folders.
_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL)


@contextlib.contextmanager
def locked(folder: Path, create: bool = True) -> Iterator[None]:
    """Keeps other processes, and other learners of this one, out of a folder.

    The lock belongs to the open file, so the system takes it back from a process that
    was killed. The empty file stays: to delete it would let two in at once.

    Args:
        folder: An existing folder.
        create: Whether to make the file of the lock, if need be.

    Raises:
        RuntimeError: If somebody else is in it.
        OSError: If nothing can be written there; `FileNotFoundError` where the file is
            not to be made.
    """
    flags = os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | (os.O_CREAT if create else 0)
    file = os.open(folder / LOCK_NAME, flags, 0o666)
    try:
        if fcntl is not None:
            _lock(file, folder)
        yield
    finally:
        os.close(file)


def _lock(file: int, folder: Path) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise RuntimeError(
            f"`directory` {folder} is in use by another run of active learning. Wait "
            "until that has ended, or give another folder; nothing was changed."
        ) from None
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        logging.warning("%s has no locks: see that only one run uses it.", folder)
