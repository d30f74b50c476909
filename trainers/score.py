r"""Scores files larger than memory with a SavedModel.

    python -m trainers.score --saved_model=saved_models/digits \
        --input='digits-*.npy,more-*.tfrecord,images/' --output=scores.parquet

The output is a folder of parts, which hold the name of each row, its mean and every
score; with --level=0.9, also the interval or set that a calibrated model promises.
After a kill, the same command goes on with the first part that is missing.
docs/scoring.md says what the files may hold.
"""

import dataclasses
import sys
from typing import ClassVar

import keras

from bhn_tf import scoring
from trainers import serve_check
from trainers.config import (
    CheckedConfig,
    UsageProblem,
    at_least,
    flag,
    one_of,
    run_binary,
)


@dataclasses.dataclass(frozen=True)
class Config(CheckedConfig):
    """Configuration of `trainers.score`."""

    # This is no flag: parts that are there stay.
    resume: ClassVar[bool] = True

    saved_model: str = flag(
        "", "A SavedModel, a folder of versions of it, or a .keras file."
    )
    input: tuple = flag(
        (), "Files, patterns and folders of images, separated by commas."
    )
    output: str = flag("", "Folder of the parts, such as scores.parquet.")
    format: str = flag(
        "",
        "parquet or csv; empty goes by the ending of --output.",
        **one_of("", "parquet", "csv"),
    )
    batch_size: int = flag(256, "Rows of one call of the model.", **at_least(1))
    rows_per_part: int = flag(
        8192, "Rows of one part, a multiple of --batch_size.", **at_least(1)
    )
    level: float = flag(
        0.0,
        "Probability of the intervals or sets of a calibrated model, such as 0.9; 0 "
        "for none.",
        check=lambda value: 0 <= value < 1,
        advice="from 0 to below 1",
    )
    overwrite: bool = flag(False, "Delete the parts of another run in --output.")


def run(config: Config) -> dict:
    """Scores, shows the progress and prints what was done.

    Returns:
        The fields of `bhn_tf.scoring.Summary`, by name.

    Raises:
        UsageProblem: If input, output and model do not fit.
    """
    for name in ("saved_model", "input", "output"):
        if not getattr(config, name):
            raise UsageProblem(
                f"--{name}= is empty: all of --saved_model, --input "
                "and --output are needed."
            )
    progress = _Progress()
    try:
        summary = scoring.score_files(
            serve_check.model_path(config.saved_model),
            config.input,
            config.output,
            format=config.format,
            batch_size=config.batch_size,
            rows_per_part=config.rows_per_part,
            overwrite=config.overwrite,
            level=config.level or None,
            on_progress=progress,
        )
    except (scoring.ScoringProblem, ImportError) as problem:
        raise UsageProblem(str(problem)) from problem
    except OSError as error:
        raise UsageProblem(
            f"--output={config.output} cannot be written ({error}). What is there is "
            "whole: the same command goes on when this is mended."
        ) from error
    progress.finish()
    _tell(config, summary)
    return dataclasses.asdict(summary)


def _tell(config, summary) -> None:
    if summary.num_kept:
        print(f"{summary.num_kept} parts were there already, and stay.")
    print(
        f"{config.output}: {summary.num_rows} rows scored, in "
        f"{summary.num_parts} parts."
    )
    if summary.unreadable:
        names = ", ".join(summary.unreadable[:5])
        print(
            f"{len(summary.unreadable)} images are missing, broken or of another size, "
            f"and have NaN as scores: {names}{', ...' * (len(summary.unreadable) > 5)}"
        )


class _Progress:
    """Rows scored so far: a bar in a terminal, a line every ten seconds in a log."""

    def __init__(self):
        self._bar = None
        self._done = 0

    def __call__(self, done: int, total: int | None) -> None:
        if self._bar is None:
            interval = 0.1 if sys.stdout.isatty() else 10
            self._bar = keras.utils.Progbar(total, unit_name="row", interval=interval)
        self._done = done
        self._bar.update(done, finalize=False)

    def finish(self) -> None:
        if self._bar is not None:
            self._bar.update(self._done, finalize=True)


def main() -> None:
    """Runs what the command line asks for."""
    run_binary(Config, run)


if __name__ == "__main__":
    main()
