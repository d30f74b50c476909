"""Files of images: which of a folder are some, and what is in them, not decoded."""

from pathlib import Path

#: Endings of what is decoded, in any case.
SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif")

_MAX_FILE_BYTES = 1 << 28


def images_in(folder: Path, inner: bool = False) -> list[Path]:
    """Returns the image files of a folder by name.

    What is hidden is left out, and so is all in hidden folders: notebooks keep copies
    in `.ipynb_checkpoints`.

    Args:
        folder: An existing folder.
        inner: Whether those of the folders in it count too.

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
    """Returns the content of a file of an image.

    Raises:
        OSError: If it cannot be read, or is no file: a pipe might never end.
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
