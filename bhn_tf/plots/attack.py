"""The effect of an attack, against the size of its step."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from bhn_tf.plots.arguments import (
    require_entries,
    require_finite,
    require_same_names,
    row,
)
from bhn_tf.plots.scores import score_label
from bhn_tf.plots.style import label_axes, legend_of_panels, line_style, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def attack_panels(
    epsilons: ArrayLike,
    panels: Mapping[str, Mapping[str, ArrayLike]],
    y_label: str,
    reference: float | None = None,
    share_y: bool = True,
) -> "Figure":
    """Curves of several methods against the step size, in panels below each other.

    The horizontal axis is logarithmic from the smallest positive step on, and linear
    below it, so that it includes ε = 0, the inputs without an attack.

    Args:
        epsilons: step sizes [n], increasing.
        panels: title of a panel -> name of a method -> values [n], NaN where there is
            none. A name in `bhn_tf.uncertainty.SCORES` becomes a title with its unit.
        y_label: what the vertical axes show.
        reference: a value to mark by a thin line, such as 0.5, the AUROC of chance.
        share_y: whether all panels have the same vertical axis, so that heights can be
            compared.

    Returns:
        The figure.

    Raises:
        ImportError: if matplotlib is not installed.
        ValueError: if there is no panel, panels have other methods than the first,
            lengths differ, or steps are not finite.

    Example:
        >>> accuracy = {"dropout": [0.9, 0.5], "hypernet": [0.9, 0.6]}
        >>> figure = attack_panels([0, 0.1], {"one step": accuracy}, "accuracy")
        >>> figure.axes[0].get_title(loc="left")
        'one step'
    """
    require_entries(panels, "panels")
    require_same_names(panels, "panels")
    epsilons = row(epsilons, "the step sizes")
    require_finite(epsilons, "the step sizes")
    figure = new_figure(height=0.4 + 1.15 * len(panels))
    axes = figure.subplots(len(panels), 1, sharex=True, sharey=share_y, squeeze=False)[
        :, 0
    ]
    for ax, (title, methods) in zip(axes, panels.items(), strict=True):
        require_entries(methods, f"panels[{title!r}]")
        if reference is not None:
            ax.axhline(reference, color="0.6", linewidth=0.8)
        for index, (name, values) in enumerate(methods.items()):
            values = row(values, f"{title!r} of {name!r}", len(epsilons))
            ax.plot(epsilons, values, label=name, **line_style(index))
        label_axes(ax, "step size ε (units of the input)", "")
        ax.set_title(score_label(title), fontsize=8, loc="left")
        ax.label_outer()
    _scale_steps(axes[0], epsilons)
    legend_of_panels(axes[0])
    figure.supylabel(y_label, fontsize=8)
    return figure


def _scale_steps(ax: "Axes", epsilons: np.ndarray) -> None:
    smallest = epsilons[epsilons > 0].min(initial=np.inf)
    largest = epsilons.max()
    if smallest < largest:
        ax.set_xscale("symlog", linthresh=smallest, linscale=0.3)
        exponents = np.arange(np.floor(np.log10(smallest)), np.log10(largest) + 1)
        decades = [10**e for e in exponents if smallest <= 10**e <= largest]
        ticks = [0.0, *(decades or [smallest, largest])]
        ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        ax.set_xticks([], minor=True)
    # Leaves room to draw the line of the largest step in full.
    ax.set_xlim(epsilons.min(), 1.02 * largest or 1.0)
