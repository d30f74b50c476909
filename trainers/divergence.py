"""Training that diverges ends with a sentence; what diverged is not kept."""

import contextlib
import functools
import math
from collections.abc import Callable, Iterator
from pathlib import Path

from bhn_tf.callbacks import Diverged, DivergenceGuard
from trainers.config import UsageProblem


@contextlib.contextmanager
def guarded(
    name: str, mend: str, last_path: Callable[[], Path | None] = lambda: None
) -> Iterator[DivergenceGuard]:
    """Gives a callback that ends training at the first term that is no finite number.

    Fits that already have a guard need not take it: they only gain the sentence.

    Args:
        name: What is trained.
        mend: What to do; the sentence ends with it.
        last_path: Returns where the last sound state is.

    Raises:
        UsageProblem: If training diverges; it names the step, the term and that state.
    """
    try:
        yield DivergenceGuard()
    except Diverged as error:
        path = last_path()
        state = f"Its last sound state is {path}" if path else "No state was kept"
        raise UsageProblem(f"{name}: {error} {state}; {mend}") from error


def infinite_where_diverged(loss: Callable[..., float]) -> Callable[..., float]:
    """Decorates the loss of a candidate: one that diverges is never the best."""

    @functools.wraps(loss)
    def judged(*args):
        try:
            found = loss(*args)
        except Diverged:
            return math.inf
        return found if math.isfinite(found) else math.inf

    return judged


def lower_rate(learning_rate: float) -> str:
    """What to do in trainers with the flags --learning_rate and --output_dir."""
    return (
        f"with --learning_rate below {learning_rate:g} give another --output_dir, or "
        "--overwrite."
    )
