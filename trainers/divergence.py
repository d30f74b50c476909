"""Training that diverges ends with a sentence, and nothing of it is kept."""

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
    """Gives a callback that ends training at the first step that is no number.

    Where the fits inside have a guard already, the sentence is all that is added.

    Args:
        name: What is trained.
        mend: What to do, the end of the sentence.
        last_path: Returns where the last sound state of a divergent training is.

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
    """Decorates the loss of a candidate: one whose fit diverges is never the best."""

    @functools.wraps(loss)
    def judged(*args):
        try:
            found = loss(*args)
        except Diverged:
            return math.inf
        return found if math.isfinite(found) else math.inf

    return judged


def lower_rate(learning_rate: float) -> str:
    """The mend where --learning_rate and a folder of the run are flags."""
    return (
        f"with --learning_rate below {learning_rate:g} give another --output_dir, or "
        "--overwrite."
    )
