"""Image files: finding them in a folder, and reading them without decoding."""

from pathlib import Path

#: Endings of image files, in upper or lower case.
SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif")

_MAX_FILE_BYTES = 1 << 28


def images_in(folder: Path, inner: bool = False) -> list[Path]:
    """Returns the image files of a folder by name.

    Hidden files, and all files in hidden folders, are left out: notebooks keep copies
    in `.ipynb_checkpoints`.

    Args:
        folder: An existing folder.
        inner: Whether to include those in its subfolders.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> (folder / ".hidden").mkdir()
        >>> for name in ("b.PNG", "a.jpg", "notes.txt", ".hidden/a.png"):
        ...     (folder / name).touch()
        >>> [path.name for path in images_in(folder, inner=True)]
        ['a.jpg', 'b.PNG']
    """
    return sorted(
        path
        for path in (folder.rglob("*") if inner else folder.iterdir())
        if path.suffix.lower() in SUFFIXES
        and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    )


def read_image(path: Path) -> bytes:
    """Returns the content of an image file.

    Raises:
        OSError: If it cannot be read, or is not a regular file: a pipe might never end.
        ValueError: If it is too large for an image.

    Example:
        >>> read_image(Path("/"))
        Traceback (most recent call last):
        ...
        FileNotFoundError: no such file
    """
    if not path.is_file():
        raise FileNotFoundError("no such file")
    if path.stat().st_size > _MAX_FILE_BYTES:
        raise ValueError(f"larger than {_MAX_FILE_BYTES} bytes")
    return path.read_bytes()
