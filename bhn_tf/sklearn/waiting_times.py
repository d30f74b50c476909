"""Targets of survival analysis, `[time, event]`, from their usual forms."""

import numpy as np


def columns_of_waits(y):
    """Returns waiting times as columns time, event, time, event, ....

    Args:
        y: Such columns already; a frame with columns "time" and "event" in any order;
            or a structured array of scikit-survival, whose first field says whether
            the event was seen and whose second is the time.

    Raises:
        ValueError: If a structured array has other fields.
    """
    if set(getattr(y, "columns", ())) == {"time", "event"}:
        return y[["time", "event"]].to_numpy("float64")
    fields = getattr(getattr(y, "dtype", None), "names", None)
    if fields is None:
        return y
    if len(fields) != 2 or y.dtype[0].kind != "b":
        raise ValueError(
            f"y has the fields {y.dtype}: give two as scikit-survival has them, "
            "whether the event was seen (bool) and then the time, or columns [time, "
            "event]."
        )
    event, time = fields
    return np.column_stack([y[time], y[event]]).astype("float64")


def paired(y) -> np.ndarray:
    """Returns columns time, event, ... as labels [rows, targets, 2].

    Raises:
        ValueError: If there are not two columns for each target.
    """
    if y.ndim == 1 or y.shape[1] % 2:
        raise ValueError(
            f"y has the shape {y.shape}, and waiting times that may be censored have "
            "two columns a target: give [time, event], the event 1 (seen) or 0 (not "
            "seen until then)."
        )
    return y.reshape(len(y), -1, 2)
