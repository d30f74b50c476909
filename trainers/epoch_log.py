"""metrics.jsonl: a line for every epoch of every method."""

import json
from pathlib import Path

from absl import logging

from bhn_tf.files import write_text
from trainers.config import UsageProblem


class EpochLog:
    """The epochs of a run, each a dictionary with `method` and `epoch`.

    Args:
        path: The file; it need not exist yet.
    """

    def __init__(self, path: Path):
        self._path = path

    def read(self, method: str | None = None) -> list[dict]:
        """Returns the epochs of one method, or of all.

        Raises:
            UsageProblem: If a line is broken.
        """
        epochs = [
            self._parse(number, line) for number, line in enumerate(self._lines(), 1)
        ]
        return [entry for entry in epochs if method in (None, entry["method"])]

    def replace(self, method: str, epochs: list[dict]) -> None:
        """Replaces the lines of a method."""
        others = [entry for entry in self.read() if entry["method"] != method]
        self._write([json.dumps(entry) for entry in others + epochs])

    def mend(self) -> None:
        """Drops a last line that was cut, with a warning; its epoch is not in the log.

        The end of a copy that was broken off, say: runs write the file as a whole.
        """
        *whole, last = self._lines() or [""]
        if last and not _is_json(last) and not self._text().endswith("\n"):
            logging.warning(
                "%s: line %d is cut and dropped; the run goes on from the others.",
                self._path,
                len(whole) + 1,
            )
            self._write(whole)

    def _text(self) -> str:
        if not self._path.exists():
            return ""
        return self._path.read_text(encoding="utf-8", errors="replace")

    def _lines(self) -> list[str]:
        return self._text().splitlines()

    def _write(self, lines: list[str]) -> None:
        write_text(self._path, "".join(line + "\n" for line in lines))

    def _parse(self, number: int, line: str) -> dict:
        entry = json.loads(line) if _is_json(line) else None
        if not isinstance(entry, dict) or not {"method", "epoch"} <= set(entry):
            raise UsageProblem(
                f"{self._path}: line {number} is no epoch of a method. Delete that "
                "line; the run goes on from the others."
            )
        return entry


def _is_json(line: str) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True
