"""Files that are never seen half-written."""

import contextlib
import os
from pathlib import Path


@contextlib.contextmanager
def written_atomically(path: Path):
    """Gives a temporary path in the same folder, and moves it to `path` at the end.

    If the block fails, or the process is killed in it, `path` stays as it was.

    Args:
        path: The file to be written.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "notes.txt"
        >>> with written_atomically(path) as temporary:
        ...     _ = temporary.write_text("done")
        >>> path.read_text()
        'done'
    """
    # The ending stays: writers choose the format by it.
    temporary = path.with_name(f".{os.getpid()}.{path.name}")
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
