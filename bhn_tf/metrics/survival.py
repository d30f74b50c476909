"""How well waiting times are predicted if some ended before the event."""

import numpy as np
from numpy.typing import ArrayLike

from bhn_tf.arguments import with_nan_for_masked


def concordance_index(
    time: ArrayLike, event: ArrayLike, prediction: ArrayLike
) -> float:
    """Share of pairs whose predictions have the same order as their times.

    Only pairs count whose order in time is known; equal predictions count half. This is
    Harrell's index, as lifelines computes it: Harrell et al., "Evaluating the yield of
    medical tests", JAMA 1982.

    Args:
        time: waiting times [n], until the event or until observation ended.
        event: [n], 1 if the event was seen, 0 if it had not happened by then.
        prediction: [n], higher if the event is expected later.

    Returns:
        0.5 for uninformative predictions, 1 for the right order.

    Raises:
        ValueError: numbers are not finite, lengths differ, events are neither 1 nor 0,
            or no pair has a known order.

    Example:
        >>> concordance_index([1.0, 2.0, 3.0], [1, 0, 1], [0.5, 0.7, 0.6])
        1.0
    """
    time, event, prediction = (
        np.asarray(with_nan_for_masked(values)) for values in (time, event, prediction)
    )
    shapes = {values.shape for values in (time, event, prediction)}
    if len(shapes) > 1 or time.ndim != 1:
        raise ValueError(
            "Expected one number of each for each row, got times, events and "
            f"predictions of shapes {time.shape}, {event.shape} and {prediction.shape}."
        )
    if not np.isfinite([time, event, prediction]).all():
        raise ValueError(
            "Expected finite times, events and predictions, got NaN or infinite ones: "
            "leave these rows out, after looking at where they come from."
        )
    if not np.isin(event, [0, 1]).all():
        raise ValueError(
            f"Expected events to be 1 (seen) or 0 (not seen until then), got "
            f"{np.unique(event).tolist()[:5]}. Recode them first: where 2 is a seen "
            "event and 1 is none, give `event == 2`."
        )
    num_known = num_agreeing = 0.0
    # Row by row, since all pairs at once would take memory of rows squared.
    for row in np.flatnonzero(event == 1):
        is_later = (time > time[row]) | ((time == time[row]) & (event == 0))
        later = prediction[is_later]
        num_known += len(later)
        num_agreeing += np.sum(later > prediction[row])
        num_agreeing += 0.5 * np.sum(later == prediction[row])
    if not num_known:
        raise ValueError(
            "No pair of rows can be ordered: at least one must have an observed event "
            "(1) before another row's time."
        )
    return float(num_agreeing / num_known)
