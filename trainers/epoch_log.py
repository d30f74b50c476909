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

    def of_training(self, method: str, num_epochs: int) -> list[dict]:
        """Returns the first epochs of a method that was trained, in order.

        Raises:
            UsageProblem: If one is missing, or has no `seconds`.
        """
        found = {e["epoch"]: e for e in self.read(method) if "seconds" in e}
        missing = [n for n in range(1, num_epochs + 1) if n not in found]
        if missing:
            raise UsageProblem(
                f"{self._path}: epoch {missing[0]} of {method} is missing, or has no "
                "`seconds`, though its checkpoint is there. Put the line back, or "
                f"delete all checkpoints of {method} to train it anew; nothing has "
                "been changed."
            )
        return [found[number] for number in range(1, num_epochs + 1)]

    def replace(self, method: str, epochs: list[dict]) -> None:
        """Replaces the lines of a method."""
        others = [entry for entry in self.read() if entry["method"] != method]
        self._write([json.dumps(entry) for entry in others + epochs])

    def mend(self) -> None:
        """Drops an incomplete last line with a warning; its epoch is not in the log.

        Runs write the file as a whole, but a copy of it may have been broken off.
        """
        *whole, last = self._lines() or [""]
        if last and not _is_json(last) and not self._text().endswith("\n"):
            logging.warning(
                "%s: line %d is cut and dropped; the run goes on without it, or says "
                "what it lacks.",
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
        if not _is_epoch(entry):
            raise UsageProblem(
                f"{self._path}: line {number} is no epoch of a method. Delete that "
                "line; the run goes on without it, or says what it lacks."
            )
        return entry


def _is_epoch(entry) -> bool:
    # Kept rows, and rounds of active learning, have no "seconds".
    kinds = {"method": str, "epoch": int, "seconds": int | float}
    values = {"seconds": 0.0, **entry} if isinstance(entry, dict) else {}
    return all(isinstance(values.get(name), kind) for name, kind in kinds.items())


def _is_json(line: str) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True
