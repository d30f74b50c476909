"""What the files of a folder agree on, or why they contradict one another.

Labels are only ever added, so two intact files of one run differ only in how far they
go: the shorter is the beginning of the longer.
"""

from collections.abc import Mapping

import numpy as np

from bhn_tf.active.labels import Labels
from bhn_tf.active.progress import Progress, entry_of

_UNTOUCHED = "Nothing was changed."


def agreed(
    configuration: dict,
    copies: Mapping[str, Labels],
    state: Progress | None,
    damaged: list[str],
) -> Progress:
    """Returns the progress that all files agree on.

    Args:
        configuration: The configuration of all files.
        copies: The readable files of labels by name, the preferred one first.
        state: Rounds and metrics from the state, without labels.
        damaged: Names of files that cannot be read, for the advice.

    Returns:
        The rounds of the longest file of labels, with the state's metrics if they
        belong to these labels.

    Raises:
        ValueError: If files are of different runs, or labels are lost or cannot be
            assigned to rows.
    """
    state_rounds = state.rounds if state else []
    if not copies:
        if state_rounds or damaged:
            raise ValueError(_labels_lost(len(_ids(state_rounds)), 0, damaged))
        return Progress(configuration)
    name = max(copies, key=lambda name: len(copies[name].values))
    values = copies[name].values
    ids = {n: copy.ids for n, copy in copies.items() if copy.ids is not None}
    if state_rounds:
        ids["state.json"] = _ids(state_rounds)
    longest = max(ids, key=lambda n: len(ids[n]), default=name)
    known = ids.get(longest, _ids([]))
    for other, there in ids.items():
        if not np.array_equal(there, known[: len(there)]):
            raise ValueError(
                f"{longest} and {other} name different rows of the pool, so they are "
                "of different runs. Move the one that does not belong here to another "
                f"folder. {_UNTOUCHED}"
            )
    for other, copy in copies.items():
        _check_same_labels(name, values, other, copy.values)
    num_known = len(known)
    if num_known > len(values):
        raise ValueError(_labels_lost(num_known, len(values), damaged))
    if num_known < len(values):
        raise ValueError(
            f"{name} holds {len(values)} labels, and of only {num_known} it is known "
            "which rows they are of. Put back the state.json that belongs to it; or "
            f"move {name} to another folder, to have the labels asked for again. "
            f"{_UNTOUCHED}"
        )
    progress = Progress(
        configuration,
        rounds=_rounds(known, copies, state_rounds),
        labels=values,
        models=state.models if state else {},
    )
    if state:
        progress.forget_labels_that_were_corrected(state.trained_labels)
    return progress


def _check_same_labels(name, values, other, others) -> None:
    first = values[: len(others)]
    if first.shape != others.shape or not np.array_equal(first, others):
        raise ValueError(
            f"{name} and {other} hold different labels for the same rows. Move the one "
            "that is wrong to another folder; after a correction by hand that is the "
            f"backup. {_UNTOUCHED}"
        )


def _rounds(ids, copies, state_rounds) -> list[dict]:
    """The rounds of the state, and those known only from the labels."""
    sizes = [len(entry["ids"]) for entry in state_rounds]
    for copy in copies.values():
        there = copy.round_sizes or []
        shorter = min(len(sizes), len(there))
        if there[:shorter] != sizes[:shorter]:
            raise ValueError(
                "The files tell the same labels to different rounds, so they are of "
                "different runs. Move those that do not belong here to another folder. "
                f"{_UNTOUCHED}"
            )
        sizes = max(sizes, there, key=len)
    rounds, stop = list(state_rounds), len(_ids(state_rounds))
    for number in range(len(rounds), len(sizes)):
        start, stop = stop, stop + sizes[number]
        rounds.append(entry_of(number, ids[start:stop], stop))
    return rounds


def _ids(rounds) -> np.ndarray:
    return Progress({}, rounds).ids


def _labels_lost(num_known: int, num_there: int, damaged: list[str]) -> str:
    cause = f" ({' and '.join(damaged)} cannot be read)" if damaged else ""
    known = f"state.json lists {num_known} labelled rows, and " if num_known else ""
    return (
        f"{known}the labels of {num_there or 'none'} are left{cause}. Put labels.npy "
        "or labels.backup.npy back from a copy of your own; or move state.json and "
        "what is damaged to another folder, to have what is missing asked for again. "
        f"{_UNTOUCHED}"
    )
