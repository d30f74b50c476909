"""The output: a folder with one part for each chunk of input."""

import hashlib
import json
import shutil
from collections.abc import Sequence
from pathlib import Path

from bhn_tf.files import written_atomically
from bhn_tf.scoring.sources import Source
from bhn_tf.scoring.tables import write_table
from bhn_tf.serving.problems import ScoringProblem

# Names with an underscore are passed over by what reads a folder of Parquet files.
_RUN = "_run.json"
_SUCCESS = "_SUCCESS"


class Parts:
    """Parts that are there are done: a killed run goes on with the first that is not.

    The part `part-00002-00005` is of the third source, its sixth chunk. `_run.json`
    says what they were made of, and `_SUCCESS` that none is missing.

    Args:
        folder: Where they go.
        format: Ending of the parts.
        run: What tells one run from another; another one's folder is refused.
        overwrite: Whether another run is deleted, and this one starts anew.

    Raises:
        ScoringProblem: If the folder holds another run, or something else.
    """

    def __init__(self, folder: Path, format: str, run: dict, overwrite: bool = False):
        self._folder = folder
        self._format = format
        if folder.is_file():
            raise ScoringProblem(
                f"{folder} is a file: scores go into a folder of that name, one part "
                "for each chunk of input."
            )
        if folder.exists() and any(folder.iterdir()):
            self._check(run, overwrite)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ScoringProblem(f"{folder} cannot be made: {error}.") from error
        if not (folder / _RUN).exists():
            with written_atomically(folder / _RUN) as temporary:
                temporary.write_text(json.dumps(run, indent=1) + "\n")

    def _check(self, run, overwrite) -> None:
        path = self._folder / _RUN
        if not path.exists():
            raise ScoringProblem(
                f"{self._folder} holds something that is no run of scores. Give "
                "another output."
            )
        if overwrite:
            shutil.rmtree(self._folder)
            return
        earlier = json.loads(path.read_text())
        different = sorted(
            key
            for key in {*run, *earlier}
            if run.get(key) != earlier.get(key) and key != "input_names"
        )
        if different:
            raise ScoringProblem(
                f"{self._folder} belongs to another run: {', '.join(different)} "
                "differ, as _run.json there shows. Give another output, or overwrite "
                "to delete it."
            )

    @property
    def are_complete(self) -> bool:
        """Whether no part is missing."""
        return (self._folder / _SUCCESS).exists()

    def path(self, source: int, chunk: int) -> Path:
        """Returns where a part belongs."""
        return self._folder / f"part-{source:05d}-{chunk:05d}.{self._format}"

    def first_missing(self, source: int) -> int:
        """Returns the first chunk of a source that has no part yet."""
        chunk = 0
        while self.path(source, chunk).exists():
            chunk += 1
        return chunk

    def write(self, source: int, chunk: int, columns: dict) -> None:
        """Writes a part whole or not at all."""
        write_table(self.path(source, chunk), columns)

    def finish(self) -> None:
        """Says that no part is missing.

        Raises:
            ScoringProblem: If there is none.
        """
        if not any(self._folder.glob("part-*")):
            raise ScoringProblem("The input has no rows: there is nothing to score.")
        (self._folder / _SUCCESS).touch()


def identity(model, sources: Sequence[Source], **facts) -> dict:
    """Returns what tells one run from another: the model, the files, the chunks.

    A file is known by its name, size and time of change, so that it is not read twice.

    Args:
        model: The `ServedModel`.
        sources: What is read.
        **facts: How it is cut and written.
    """
    digest = hashlib.sha256()
    for source in sources:
        for path in source.files:
            stat = path.stat()
            digest.update(f"{path}\0{stat.st_size}\0{stat.st_mtime_ns}\n".encode())
    return {
        "model": model.fingerprint,
        "input": digest.hexdigest(),
        "input_names": [source.name for source in sources],
        **facts,
    }
