"""JSON files that say how far a run is; a broken one is named, with its mend."""

import json
from pathlib import Path

from bhn_tf.files import write_text
from trainers.config import UsageProblem


def write_json(path: Path, content) -> None:
    """Writes a JSON file whole or not at all."""
    write_text(path, json.dumps(content, indent=2) + "\n")


def read_json(path: Path, kind: type, mend: str):
    """Reads a JSON file that `write_json` wrote.

    Args:
        path: The file.
        kind: What it holds, `dict` or `list`.
        mend: What to do if it is broken, a sentence.

    Raises:
        UsageProblem: If it cannot be read or holds something else.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageProblem(f"{path} cannot be read ({error}). {mend}") from error
    if not isinstance(content, kind):
        raise UsageProblem(f"{path} holds something else than it should. {mend}")
    return content
