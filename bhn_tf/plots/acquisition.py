"""Learning curves of active learning: accuracy against number of labels."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from bhn_tf.plots.arguments import require_entries, row
from bhn_tf.plots.style import (
    figure_of,
    label_axes,
    legend_above,
    line_style,
    new_axes,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def acquisition_curves(
    curves: Mapping[str, Sequence[ArrayLike]],
    target: float | None = None,
    *,
    y_label: str = "test accuracy",
    ax: "Axes | None" = None,
) -> "Figure":
    """How good a model is after each number of labels.

    The earlier a curve rises, the better its acquisition chooses. The line is the mean
    over runs with different seeds, the band their range.

    Args:
        curves: name of an acquisition or a method -> (number of labels [n], accuracy
            [n] or [runs, n]).
        target: an accuracy to mark by a thin line.
        y_label: what the vertical axis shows.
        ax: axes to draw on.

    Returns:
        The figure.

    Raises:
        ImportError: if matplotlib is not installed.
        ValueError: if there is no curve, or lengths differ.

    Example:
        >>> figure = acquisition_curves({"bald": ([20, 30], [[0.5, 0.7], [0.6, 0.8]])})
        >>> figure.axes[0].get_xlabel()
        'number of labels'
    """
    require_entries(curves, "curves")
    is_own_figure = ax is None
    ax = new_axes(height=2.2) if ax is None else ax
    if target is not None:
        ax.axhline(target, color="0.6", linewidth=0.8, label=f"target {target:g}")
    for index, (name, curve) in enumerate(curves.items()):
        num_labels = row(curve[0], f"the number of labels of {name!r}")
        runs = np.atleast_2d(np.asarray(curve[1], dtype=float))
        for run in runs:
            row(run, f"the accuracy of {name!r}", len(num_labels))
        style = line_style(index)
        ax.plot(num_labels, runs.mean(axis=0), label=name, **style)
        if len(runs) > 1:
            low, high = runs.min(axis=0), runs.max(axis=0)
            # Bands are transparent, since they may overlap.
            color = style["color"]
            ax.fill_between(num_labels, low, high, color=color, alpha=0.2, linewidth=0)
    label_axes(ax, "number of labels", y_label)
    legend_above(ax, is_own_figure)
    return figure_of(ax)
