"""The reject option: error rate against share of rows answered."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

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


def risk_coverage_curve(
    curves: Mapping[str, Sequence[ArrayLike]],
    *,
    ax: "Axes | None" = None,
) -> "Figure":
    """The error rate among answered rows, if uncertain rows are rejected.

    Args:
        curves: name of a method -> (coverage [n], risk [n]), the first two results of
            `bhn_tf.metrics.risk_coverage`; if it has `aurc`, the area under the curve,
            the legend shows it.
        ax: axes to draw on.

    Returns:
        The figure.

    Raises:
        ImportError: if matplotlib is not installed.
        ValueError: if there is no curve, or lengths differ.

    Example:
        >>> figure = risk_coverage_curve({"model": ([0.5, 1.0], [0.0, 0.1])})
        >>> figure.axes[0].get_ylabel()
        'error rate of answered rows'
    """
    require_entries(curves, "curves")
    is_own_figure = ax is None
    ax = new_axes(height=2.2) if ax is None else ax
    for index, (name, curve) in enumerate(curves.items()):
        coverage = row(curve[0], f"the coverage of {name!r}")
        risk = row(curve[1], f"the risk of {name!r}", len(coverage))
        if hasattr(curve, "aurc"):
            name = f"{name} (area {curve.aurc:.2g})"
        ax.plot(coverage, risk, label=name, **line_style(index))
    ax.set_xlim(0, 1)
    ax.set_ylim(bottom=0)
    label_axes(ax, "coverage (share of rows answered)", "error rate of answered rows")
    legend_above(ax, is_own_figure)
    return figure_of(ax)
