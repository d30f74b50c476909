"""JSON files that say how far a run is; a broken one is named, with what to do."""

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bhn_tf.files import write_text
from trainers.config import UsageProblem

#: What code raises if a file holds other content than it was written for.
_NO_SENSE = (AttributeError, LookupError, StopIteration, TypeError, ValueError)


def write_json(path: Path, content) -> None:
    """Writes a JSON file whole or not at all."""
    write_text(path, json.dumps(content, indent=2) + "\n")


def read_json(
    path: Path, kind: type, mend: str, is_right: Callable[[Any], bool] | None = None
):
    """Reads a JSON file that `write_json` wrote.

    Args:
        path: The file.
        kind: What it holds, `dict` or `list`.
        mend: What to do if it is broken, a sentence.
        is_right: What else its content has to be.

    Raises:
        UsageProblem: If it cannot be read or holds something else.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise UsageProblem(f"{path} cannot be read ({error}). {mend}") from error
    is_kind = isinstance(content, kind)
    if not is_kind or (is_right is not None and not is_right(content)):
        raise UsageProblem(f"{path} holds something else than it should. {mend}")
    return content


@contextlib.contextmanager
def making_sense_of(path: Path, mend: str) -> Iterator[None]:
    """Turns errors of a block that works on the content of a file into a sentence.

    Args:
        path: The file.
        mend: As in `read_json`.

    Raises:
        UsageProblem: If the block fails; names the file.
    """
    try:
        yield
    except _NO_SENSE as error:
        raise UsageProblem(
            f"{path} holds something else than it should. {mend}"
        ) from error
