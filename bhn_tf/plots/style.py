"""How the figures of `bhn_tf.plots` look, and how they are saved."""

import math
import os
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bhn_tf.environment import require
from bhn_tf.files import written_atomically

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WIDTH = 3.3  # inches, a column of a two-column page
_FONT_SIZE = 8  # points
_LINE_HEIGHT = 0.165  # inches, one line of a legend
_LETTERS_ACROSS = 40  # as many fit into one line of a legend above axes
_LETTERS_ACROSS_FIGURE = 44  # and above the panels of a figure

# Okabe and Ito's palette, which stays distinct with every common kind of colour
# blindness; without its yellow, which is too light for lines on white.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_LINE_STYLES = ("-", "--", "-.", ":")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")


def new_figure(height: float) -> "Figure":
    """An empty figure as wide as a column, independent of any global state.

    Args:
        height: its height in inches.

    Returns:
        A matplotlib `Figure` that draws pixels unless it is saved in another format.

    Raises:
        ImportError: with the command that installs matplotlib, if it is not there.

    Example:
        >>> float(new_figure(height=2.0).get_figwidth())
        3.3
    """
    require("matplotlib", "'bhn-tf[trainers]'")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(_WIDTH, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def new_axes(height: float) -> "Axes":
    """One pair of axes in a figure of its own.

    Args:
        height: the figure's height in inches, excluding a legend.

    Returns:
        Matplotlib `Axes`, with few enough numbers on the horizontal axis.

    Raises:
        ImportError: with the command that installs matplotlib, if it is not there.

    Example:
        >>> len(new_axes(height=2.0).figure.axes)
        1
    """
    ax = new_figure(height).subplots()
    ax.locator_params(axis="x", nbins=6)
    return ax


def figure_of(ax: "Axes") -> "Figure":
    """The whole figure that contains axes, even if they are in a subfigure.

    Args:
        ax: axes of any figure.

    Example:
        >>> figure = new_figure(height=2.0)
        >>> left, right = figure.subfigures(1, 2)
        >>> figure_of(left.subplots()) is figure
        True
    """
    return ax.figure.canvas.figure


def label_axes(ax: "Axes", x_label: str, y_label: str) -> None:
    """Labels axes, and sets what matplotlib would take from its global settings.

    Args:
        ax: axes on which everything has been drawn.
        x_label: what the horizontal axis shows, with its unit.
        y_label: what the vertical axis shows, with its unit.

    Example:
        >>> ax = new_axes(height=2.0)
        >>> label_axes(ax, "time (s)", "accuracy")
        >>> ax.get_xlabel()
        'time (s)'
    """
    ax.set_xlabel(x_label, fontsize=_FONT_SIZE)
    ax.set_ylabel(y_label, fontsize=_FONT_SIZE)
    ax.tick_params(which="both", labelsize=_FONT_SIZE)
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(color="0.9", linewidth=0.5)
    ax.set_axisbelow(True)


def legend_above(ax: "Axes", is_own_figure: bool) -> None:
    """Puts a legend above the axes, where it cannot hide data.

    Args:
        ax: axes on which everything has been drawn.
        is_own_figure: whether the figure may grow by the height of the legend.

    Example:
        >>> ax = new_axes(height=2.0)
        >>> lines = ax.plot([0, 1], [0, 1], label="model")
        >>> legend_above(ax, is_own_figure=True)
        >>> ax.get_legend() is not None
        True
    """
    num_lines = _legend(
        ax, ax, 2, _LETTERS_ACROSS, loc="lower left", bbox_to_anchor=(0, 1.0)
    )
    if is_own_figure:
        figure = figure_of(ax)
        figure.set_figheight(figure.get_figheight() + num_lines * _LINE_HEIGHT)


def legend_of_panels(ax: "Axes") -> None:
    """Puts one legend above all panels of a figure, which grows by its height.

    Args:
        ax: one of the panels, on which everything has been drawn.

    Example:
        >>> ax = new_axes(height=2.0)
        >>> lines = ax.plot([0, 1], [0, 1], label="model")
        >>> legend_of_panels(ax)
        >>> len(ax.figure.legends)
        1
    """
    figure = figure_of(ax)
    num_lines = _legend(figure, ax, 3, _LETTERS_ACROSS_FIGURE, loc="outside upper left")
    figure.set_figheight(figure.get_figheight() + num_lines * _LINE_HEIGHT)


def _legend(owner, ax: "Axes", max_columns: int, max_letters: int, **place) -> int:
    """Draws the legend of `ax` in as many columns as fit; returns how many lines."""
    handles, labels = ax.get_legend_handles_labels()
    labels = [textwrap.fill(label, max_letters) for label in labels]
    num_columns = min(max_columns, max(len(labels), 1))
    while num_columns > 1 and not _fit(labels, num_columns, max_letters):
        num_columns -= 1
    owner.legend(
        handles,
        labels,
        fontsize=_FONT_SIZE,
        frameon=False,
        ncols=num_columns,
        borderaxespad=0.2,
        columnspacing=1.0,
        handlelength=1.8,
        **place,
    )
    if num_columns > 1:
        return math.ceil(len(labels) / num_columns)
    return sum(1 + text.count("\n") for text in labels)


def _fit(labels: list[str], num_columns: int, max_letters: int) -> bool:
    # The legend fills one column after the other, the first ones possibly with one more
    # entry. A handle and the space before it take the room of six letters.
    columns = np.array_split(np.array([len(label) for label in labels]), num_columns)
    letters = sum(column.max() for column in columns) + 6 * (num_columns - 1)
    return letters <= max_letters


def line_style(index: int) -> dict:
    """Colour and dashes of curve number `index`, distinct even in greyscale.

    Args:
        index: 0, 1, ...; 28 of them differ.

    Returns:
        Keyword arguments for matplotlib.

    Example:
        >>> line_style(0)["linestyle"]
        '-'
    """
    return {
        "color": COLORS[index % len(COLORS)],
        "linestyle": _LINE_STYLES[index % len(_LINE_STYLES)],
        "linewidth": 1.2,
    }


def marker(index: int) -> str:
    """The marker of curve number `index`.

    Args:
        index: 0, 1, ...; 7 of them differ.

    Returns:
        A matplotlib marker.

    Example:
        >>> marker(0)
        'o'
    """
    return _MARKERS[index % len(_MARKERS)]


def tint(color: str, share_of_white: float) -> tuple[float, float, float]:
    """An opaque lighter shade of a colour.

    Args:
        color: `"#rrggbb"`.
        share_of_white: 0 leaves the colour as it is, 1 gives white.

    Returns:
        Red, green and blue in [0, 1].

    Example:
        >>> tint("#000000", 0.5)
        (0.5, 0.5, 0.5)
    """
    channels = (int(color[i : i + 2], 16) / 255 for i in (1, 3, 5))
    red, green, blue = (share_of_white + (1 - share_of_white) * c for c in channels)
    return red, green, blue


def save(figure: "Figure", path: str | os.PathLike, dots_per_inch: int = 150) -> Path:
    """Writes a figure to a file, completely or not at all.

    Args:
        figure: a figure, from a function of this module or any other.
        path: the file; its ending sets the format, such as `.png` or `.pdf`. An
            existing file is replaced only once the new one is complete.
        dots_per_inch: the resolution of pixel formats.

    Returns:
        The path.

    Raises:
        ValueError: if the ending is missing or names no known format.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save(new_figure(height=2.0), f"{folder}/empty.png").name
        'empty.png'
    """
    path = Path(path)
    known = figure.canvas.get_supported_filetypes()
    if path.suffix.lower().lstrip(".") not in known:
        raise ValueError(
            f"Expected the name of a file that ends in one of {sorted(known)}, after a "
            f"dot, got {str(path)!r}."
        )
    with written_atomically(path) as unfinished:
        figure.savefig(unfinished, dpi=dots_per_inch)
    return path
