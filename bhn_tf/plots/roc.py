"""ROC curves: how well a score tells strange rows from known ones."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from numpy.typing import ArrayLike

from bhn_tf.metrics.ranking import detection_curve
from bhn_tf.plots.arguments import require_entries
from bhn_tf.plots.style import figure_of, label_axes, legend_above, line_style, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def roc_curves(
    scores: Mapping[str, Sequence[ArrayLike]], *, ax: "Axes | None" = None
) -> "Figure":
    """The share of strange rows that are found against the share of false alarms.

    Args:
        scores: name of a method -> (scores of known rows, scores of strange rows), as
            for `bhn_tf.metrics.detection`, whose `auroc` the legend shows.
        ax: axes to draw on.

    Returns:
        The figure.

    Raises:
        ImportError: if matplotlib is not installed.
        ValueError: if there is no method, or a set without rows.

    Example:
        >>> figure = roc_curves({"model": ([0.1, 0.3], [0.2, 0.4])})
        >>> figure.axes[0].get_xlabel()
        'false alarms (share of known rows)'
    """
    require_entries(scores, "scores")
    is_own_figure = ax is None
    ax = new_axes(height=2.4) if ax is None else ax
    for index, (name, (known, strange)) in enumerate(scores.items()):
        curve = detection_curve(known, strange)
        label = f"{name} (area {curve.auroc:.3f})"
        ax.plot(curve.flagged_in, curve.flagged_out, label=label, **line_style(index))
    ax.plot([0, 1], [0, 1], color="0.6", linewidth=0.8, label="chance")
    # Room for curves that run along the edges.
    ax.set(xlim=(-0.01, 1), ylim=(0, 1.02))
    label_axes(
        ax, "false alarms (share of known rows)", "found (share of strange rows)"
    )
    legend_above(ax, is_own_figure)
    return figure_of(ax)
