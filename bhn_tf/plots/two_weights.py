"""Draws of two weights over their exact posterior."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from bhn_tf.plots.arguments import require_entries, require_finite, row
from bhn_tf.plots.style import COLORS, label_axes, new_figure, tint

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Shares of the mass inside the contour lines.
_SHARES = (0.95, 0.8, 0.5, 0.2)


def two_weights(
    draws: Mapping[str, ArrayLike],
    axis: ArrayLike,
    density: ArrayLike,
    names: tuple[str, str] = ("a", "b"),
) -> "Figure":
    """One panel per method: its draws of two weights over the exact density.

    It resembles the figure of symmetric modes in "Bayesian Hypernetworks".

    Args:
        draws: name of a method -> draws [S, 2].
        axis: the grid of each weight, [n].
        density: the exact posterior density on the grid, [n, n], up to a factor, with
            the first weight on the first axis.
        names: names of the weights.

    Returns:
        The figure.

    Raises:
        ImportError: if matplotlib is not installed.
        ValueError: if there is no method, shapes do not fit, numbers are not finite, or
            the density is negative or the same everywhere.

    Example:
        >>> axis = np.linspace(-3, 3, 50)
        >>> density = np.exp(-0.5 * (axis[:, None] ** 2 + axis**2))
        >>> figure = two_weights({"hypernet": np.zeros([5, 2])}, axis, density)
        >>> len(figure.axes)
        1
    """
    require_entries(draws, "draws")
    axis, density = row(axis, "axis"), np.asarray(density, float)
    if density.shape != (len(axis), len(axis)):
        raise ValueError(
            f"Expected `density` to have the shape {[len(axis)] * 2} of the grid, got "
            f"{list(density.shape)}."
        )
    require_finite(axis, "`axis`")
    require_finite(density, "`density`")
    if density.min() < 0 or density.min() == density.max():
        raise ValueError(
            "Expected `density` to be at least 0 and to vary over the grid, got values "
            f"from {density.min():g} to {density.max():g}."
        )
    num_rows = -(-len(draws) // 2)
    figure = new_figure(height=0.4 + 1.65 * num_rows)
    panels = figure.subplots(
        num_rows, min(2, len(draws)), sharex=True, sharey=True, squeeze=False
    )
    for ax in panels.flat[len(draws) :]:
        ax.set_axis_off()
    for ax, (name, values) in zip(panels.flat, draws.items(), strict=False):
        values = np.asarray(values, float)
        if values.ndim != 2 or values.shape[1] != 2:
            raise ValueError(
                f"Expected the draws of {name!r} to have the shape [S, 2], got "
                f"{list(values.shape)}."
            )
        require_finite(values, f"the draws of {name!r}")
        (points,) = ax.plot(
            *values.T, color=tint(COLORS[0], 0.35), linestyle="", marker=".", ms=1.5
        )
        ax.contour(
            axis, axis, density.T, _levels(density), colors=COLORS[1], linewidths=0.8
        )
        ax.set_title(name, fontsize=8, loc="left")
        ax.set_aspect("equal")
        label_axes(ax, f"weight {names[0]}", f"weight {names[1]}")
        ax.label_outer()
    # The last panel of each column has the numbers, even above an empty place.
    for ax in panels.flat[: len(draws)][-panels.shape[1] :]:
        ax.tick_params(labelbottom=True)
        ax.set_xlabel(f"weight {names[0]}", fontsize=8)
    reach = _reach(axis, density)
    panels[0, 0].set(xlim=(-reach, reach), ylim=(-reach, reach))
    panels[0, 0].locator_params(nbins=4)
    from matplotlib.lines import Line2D

    shares = ", ".join(f"{100 * share:.0f}" for share in sorted(_SHARES))
    exact = Line2D([], [], color=COLORS[1], linewidth=0.8)
    figure.legend(
        [points, exact],
        ["draws", f"exact, {shares} % of the mass"],
        loc="outside upper left",
        ncols=2,
        fontsize=8,
        frameon=False,
        markerscale=4,
    )
    return figure


def _levels(density: np.ndarray) -> list[float]:
    """Densities above which the shares of the mass lie, ascending and different."""
    ordered = np.sort(density.ravel())[::-1]
    mass = np.cumsum(ordered) / ordered.sum()
    levels = {float(ordered[np.searchsorted(mass, share)]) for share in _SHARES}
    return sorted(levels)


def _reach(axis: np.ndarray, density: np.ndarray) -> float:
    """The distance from zero within which nearly all mass lies, with some margin."""
    ordered = np.sort(density.ravel())[::-1]
    mass = np.cumsum(ordered) / ordered.sum()
    inside = density >= ordered[np.searchsorted(mass, 0.999)]
    used = np.concatenate([axis[inside.any(axis=1)], axis[inside.any(axis=0)]])
    return float(1.1 * np.abs(used).max())
