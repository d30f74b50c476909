"""How the weights of a posterior depend on each other."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from bhn_tf.arguments import check_count
from bhn_tf.plots.arguments import require_entries, require_finite, row
from bhn_tf.plots.style import (
    COLORS,
    figure_of,
    label_axes,
    legend_above,
    line_style,
    new_axes,
    new_figure,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def p_value_histogram(
    p_values: Mapping[str, ArrayLike],
    num_bins: int = 20,
    *,
    ax: "Axes | None" = None,
) -> "Figure":
    """Histograms of p-values of Pearson's test over pairs of weights.

    Independent weights give the flat line; bars above it on the left are pairs that
    depend on each other.

    Args:
        p_values: name of a posterior -> p-values [pairs], such as those of
            `bhn_tf.correlation.pearson_test`.
        num_bins: the number of bins on [0, 1].
        ax: axes to draw on.

    Returns:
        The figure.

    Raises:
        ImportError: if matplotlib is not installed.
        ValueError: if there is no posterior or no bin, or a p-value is not a
            probability.

    Example:
        >>> figure = p_value_histogram({"hypernet": [0.01, 0.2, 0.7]})
        >>> figure.axes[0].get_ylabel()
        'share of pairs per bin'
    """
    require_entries(p_values, "p_values")
    check_count("num_bins", num_bins, minimum=1)
    is_own_figure = ax is None
    ax = new_axes(height=2.0) if ax is None else ax
    edges = np.linspace(0, 1, num_bins + 1)
    for index, (name, values) in enumerate(p_values.items()):
        values = row(values, f"the p-values of {name!r}")
        if not ((values >= 0) & (values <= 1)).all():
            raise ValueError(f"A p-value of {name!r} is not between 0 and 1.")
        share = np.histogram(values, edges)[0] / len(values)
        label = f"{name} ({100 * np.mean(values < 0.05):.2g} % below 0.05)"
        if index == 0:
            ax.stairs(share, edges, fill=True, color=COLORS[0], alpha=0.35)
        ax.stairs(share, edges, baseline=None, label=label, **line_style(index))
    ax.axhline(1 / num_bins, color="0.4", linewidth=0.8, label="independent weights")
    ax.set_xlim(0, 1)
    ax.set_ylim(bottom=0)
    label_axes(ax, "p-value of Pearson's correlation", "share of pairs per bin")
    legend_above(ax, is_own_figure)
    return figure_of(ax)


def scatter_matrix(draws: ArrayLike, names: Sequence[str] | None = None) -> "Figure":
    """Draws of some weights against each other, their histograms on the diagonal.

    Args:
        draws: [S, k] of a few weights.
        names: names of the weights; by default their numbers.

    Returns:
        The figure.

    Raises:
        ImportError: if matplotlib is not installed.
        ValueError: if there are fewer than two weights, a different number of names, or
            draws that are not finite.

    Example:
        >>> figure = scatter_matrix(np.random.default_rng(0).normal(size=(50, 3)))
        >>> len(figure.axes)
        9
    """
    draws = np.asarray(draws, float)
    if draws.ndim != 2 or draws.shape[1] < 2:
        raise ValueError(
            "Expected draws of shape [S, k] with at least two weights, got "
            f"{list(draws.shape)}."
        )
    require_finite(draws, "draws")
    size = draws.shape[1]
    names = [str(index) for index in range(size)] if names is None else list(names)
    if len(names) != size:
        raise ValueError(f"{len(names)} names do not fit {size} weights.")
    figure = new_figure(height=3.3)
    panels = figure.subplots(size, size, sharex="col", squeeze=False)
    for i in range(size):
        for j in range(size):
            ax = panels[i, j]
            if i == j:
                ax.hist(draws[:, i], bins=20, color=COLORS[0], alpha=0.5)
            else:
                style = {"color": COLORS[0], "linestyle": "", "marker": ".", "ms": 1}
                ax.plot(draws[:, j], draws[:, i], **style)
            label_axes(
                ax, names[j] if i == size - 1 else "", names[i] if j == 0 else ""
            )
            ax.grid(False)
            ax.locator_params(nbins=2)
            ax.tick_params(labelsize=6, labelleft=j == 0 and i != j, labelbottom=False)
            if i == size - 1:
                ax.tick_params(labelbottom=True)
    return figure
