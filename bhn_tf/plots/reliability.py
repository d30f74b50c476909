"""The reliability diagram: accuracy against confidence."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from bhn_tf.metrics import Reliability, reliability
from bhn_tf.plots.arguments import require_entries
from bhn_tf.plots.style import (
    figure_of,
    label_axes,
    legend_above,
    line_style,
    marker,
    new_figure,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


# Below this, the accuracy in a bin is mostly chance.
_FEW_ROWS = 20
_FEW_MARKER: dict[str, Any] = {
    "linestyle": "",
    "markersize": 2.5,
    "markerfacecolor": "white",
}


def reliability_diagram(
    labels: ArrayLike,
    probabilities_by_method: Mapping[str, ArrayLike] | ArrayLike,
    num_bins: int = 15,
    *,
    ax: "Axes | None" = None,
) -> "Figure":
    """Accuracy against confidence: on the diagonal, confidence can be taken literally.

    There is one marker per bin of confidence. The thin vertical line from it to the
    diagonal is the gap that the expected calibration error (ECE, in the legend)
    averages over rows. Below the diagonal the model is overconfident. Bins of fewer
    than 20 rows, where accuracy is mostly chance, have small hollow markers. The lower
    panel counts rows.

    Args:
        labels: integer labels [rows].
        probabilities_by_method: name of a method -> its probabilities [rows, C], or one
            such array.
        num_bins: the number of bins of equal width on [0, 1].
        ax: axes to draw the diagram on, without the panel of counts.

    Returns:
        The figure.

    Raises:
        ImportError: if matplotlib is not installed.
        ValueError: if there is no method, or rows do not match.

    Example:
        >>> figure = reliability_diagram([0, 1], [[0.8, 0.2], [0.4, 0.6]])
        >>> len(figure.axes)
        2
    """
    if not isinstance(probabilities_by_method, Mapping):
        probabilities_by_method = {"model": probabilities_by_method}
    require_entries(probabilities_by_method, "probabilities_by_method")
    bins = {
        name: reliability(labels, probabilities, num_bins)
        for name, probabilities in probabilities_by_method.items()
    }
    is_own_figure, counts_ax = ax is None, None
    if ax is None:
        figure = new_figure(height=3.4)
        ax, counts_ax = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    ax.plot([0, 1], [0, 1], color="0.6", linewidth=0.8, label="calibrated")
    for index, (name, found) in enumerate(bins.items()):
        _draw_reliability(ax, name, found, index)
    if any(((b.count > 0) & (b.count < _FEW_ROWS)).any() for b in bins.values()):
        label = f"bin of under {_FEW_ROWS} rows"
        ax.plot([], [], color="0.4", marker="o", label=label, **_FEW_MARKER)
    ax.set(xlim=(0, 1), ylim=(0, 1))
    label_axes(ax, "" if counts_ax else "confidence", "accuracy")
    legend_above(ax, is_own_figure)
    if counts_ax:
        _draw_counts(counts_ax, bins.values())
    return figure_of(ax)


def _draw_reliability(ax: "Axes", name: str, found: Reliability, index: int) -> None:
    is_used = found.count > 0
    confidence, accuracy = found.confidence[is_used], found.accuracy[is_used]
    count = found.count[is_used]
    error = np.average(np.abs(accuracy - confidence), weights=count)
    style = line_style(index)
    color = style["color"]
    ax.vlines(confidence, confidence, accuracy, color=color, linewidth=0.7, alpha=0.6)
    enough = count >= _FEW_ROWS
    # Unclipped, so that markers at 0 and 1 are drawn whole.
    shared: dict[str, Any] = {"color": color, "marker": marker(index), "clip_on": False}
    many_marker = {"linestyle": "", "markersize": 4}
    for shown, of_rows in ((~enough, _FEW_MARKER), (enough, many_marker)):
        # The layout would leave room for unclipped markers of no bin, in a corner.
        if shown.any():
            ax.plot(confidence[shown], accuracy[shown], **shared, **of_rows)
    label = f"{name} (ECE {100 * error:.2g} %)"
    ax.plot([], [], label=label, marker=marker(index), markersize=4, **style)


def _draw_counts(ax: "Axes", all_bins: Iterable[Reliability]) -> None:
    for index, found in enumerate(all_bins):
        edges = np.linspace(0, 1, len(found.count) + 1)
        ax.stairs(found.count, edges, baseline=None, **line_style(index))
    # Good models have nearly all rows in the last bin, so the axis is logarithmic; from
    # 0.7 on, a count of 1 is visible.
    ax.set_yscale("log")
    ax.set_ylim(bottom=0.7)
    label_axes(ax, "confidence", "rows per bin")
