"""Predictive distributions of several regressions beside each other."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from bhn_tf.plots.arguments import (
    require_entries,
    require_finite,
    require_no_negative_std,
    row,
)
from bhn_tf.plots.regression import regression_bands
from bhn_tf.plots.style import (
    figure_of,
    label_axes,
    legend_above,
    legend_of_panels,
    line_style,
    new_axes,
    new_figure,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def regression_panels(
    x: ArrayLike,
    predictions: Mapping[str, tuple[ArrayLike, ArrayLike]],
    x_train: ArrayLike,
    y_train: ArrayLike,
    bands: Sequence[float] = (0.5, 1, 1.5, 2),
) -> "Figure":
    """The bands of several methods, one panel each, on one pair of axes.

    Args:
        x: inputs [n] or [n, 1].
        predictions: name of a method -> (mean, standard deviation) at `x`.
        x_train: inputs of the training data, [m] or [m, 1].
        y_train: outputs of the training data, [m] or [m, 1].
        bands: half-widths of the bands, in standard deviations.

    Returns:
        The figure. The vertical axis covers the data with some margin, so that bands
        far from the data may exceed it.

    Raises:
        ImportError: if matplotlib is not installed.
        ValueError: if there is no method, or shapes do not match.

    Example:
        >>> predictions = {"one": ([0, 1], [0.1, 0.2]), "other": ([0, 1], [0.1, 0.1])}
        >>> len(regression_panels([0, 1], predictions, [0.5], [0.4]).axes)
        2
    """
    require_entries(predictions, "predictions")
    num_rows = len(predictions)
    figure = new_figure(height=0.4 + 1.15 * num_rows)
    panels = figure.subplots(num_rows, 1, sharex=True, sharey=True, squeeze=False)
    for (name, (mean, std)), ax in zip(predictions.items(), panels[:, 0], strict=True):
        regression_bands(x, mean, std, x_train, y_train, bands, ax=ax)
        ax.set_title(name, fontsize=8, loc="left")
        ax.get_legend().remove()
        ax.label_outer()
    panels[0, 0].locator_params(axis="x", nbins=5)
    targets = row(y_train, "y_train")
    room = 1.5 * (np.ptp(targets) or 1.0)
    panels[0, 0].set_ylim(targets.min() - room, targets.max() + room)
    legend_of_panels(panels[0, 0])
    return figure


def std_curves(
    x: ArrayLike,
    stds: Mapping[str, ArrayLike],
    data_range: tuple[float, float] | None = None,
    *,
    ax: "Axes | None" = None,
) -> "Figure":
    """Standard deviations of several methods over the input, on a logarithmic axis.

    Args:
        x: inputs [n] or [n, 1], in any order.
        stds: name of a method -> standard deviation at `x`, [n] or [n, 1].
        data_range: first and last input of the training data, shaded.
        ax: axes to draw on.

    Returns:
        The figure.

    Raises:
        ImportError: if matplotlib is not installed.
        ValueError: if there is no method, shapes do not match, a standard deviation is
            negative, or an input is not finite.

    Example:
        >>> figure = std_curves([0, 1], {"model": [0.1, 0.2]}, (0, 0.5))
        >>> figure.axes[0].get_yscale()
        'log'
    """
    require_entries(stds, "stds")
    x = row(x, "x")
    require_finite(x, "`x`")
    order = np.argsort(x)
    is_own_figure = ax is None
    ax = new_axes(height=2.0) if ax is None else ax
    if data_range is not None:
        ax.axvspan(*data_range, color="0.92", linewidth=0, label="training data")
    for index, (name, std) in enumerate(stds.items()):
        std = row(std, f"std of {name!r}", len(x))
        require_no_negative_std(std, f"std of {name!r}")
        ax.plot(x[order], std[order], label=name, **line_style(index))
    ax.set_yscale("log")
    ax.margins(x=0)
    label_axes(ax, "x", "std of the mean of y")
    legend_above(ax, is_own_figure)
    return figure_of(ax)
