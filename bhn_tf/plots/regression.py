"""The predictive distribution of a regression."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from bhn_tf.plots.arguments import require_finite, require_no_negative_std, row
from bhn_tf.plots.style import (
    COLORS,
    figure_of,
    label_axes,
    legend_above,
    new_axes,
    tint,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def regression_bands(
    x: ArrayLike,
    mean: ArrayLike,
    std: ArrayLike,
    x_train: ArrayLike,
    y_train: ArrayLike,
    bands: Sequence[float] = (0.5, 1, 1.5, 2),
    *,
    ax: "Axes | None" = None,
) -> "Figure":
    """The predictive mean with bands of standard deviations, and the training data.

    As in figure 1 of "Bayesian Hypernetworks", each shade is half a standard deviation.

    Args:
        x: inputs [n] or [n, 1], in any order.
        mean: predictive mean at `x`, [n] or [n, 1].
        std: standard deviation at `x`, [n] or [n, 1], such as `epistemic_std`.
        x_train: inputs of the training data, [m] or [m, 1].
        y_train: outputs of the training data, [m] or [m, 1].
        bands: half-widths of the bands, in standard deviations.
        ax: axes to draw on.

    Returns:
        The figure.

    Raises:
        ImportError: if matplotlib is not installed.
        ValueError: if shapes do not match, a standard deviation is negative, or inputs
            or training data are not finite.

    Example:
        >>> figure = regression_bands([0, 1], [0, 1], [0.1, 0.2], [0.5], [0.4])
        >>> len(figure.axes)
        1
    """
    x = row(x, "x")
    order = np.argsort(x)
    x = x[order]
    mean = row(mean, "mean", len(x))[order]
    std = row(std, "std", len(x))[order]
    x_train = row(x_train, "x_train")
    y_train = row(y_train, "y_train", len(x_train))
    for name, values in (("x", x), ("x_train", x_train), ("y_train", y_train)):
        require_finite(values, f"`{name}`")
    require_no_negative_std(std, "std")
    is_own_figure = ax is None
    ax = new_axes(height=2.2) if ax is None else ax
    # Opaque shades do not add up, so that their colours match the legend.
    widest_first = sorted(bands, reverse=True)
    shades = np.linspace(0.9, 0.6, len(widest_first))
    for width, shade in zip(widest_first, shades, strict=True):
        color = tint(COLORS[0], shade)
        low, high = mean - width * std, mean + width * std
        ax.fill_between(
            x, low, high, color=color, linewidth=0, label=f"± {width:g} std"
        )
    ax.plot(x, mean, color=COLORS[0], linewidth=1.2, label="mean")
    ax.plot(
        x_train,
        y_train,
        color=COLORS[1],
        linestyle="",
        marker="x",
        markersize=3.5,
        markeredgewidth=0.8,
        label="training data",
    )
    ax.margins(x=0)
    label_axes(ax, "x", "y")
    legend_above(ax, is_own_figure)
    return figure_of(ax)
