"""The picture of a diagnosis."""

from typing import TYPE_CHECKING

import numpy as np

from bhn_tf.plots.style import COLORS, label_axes, legend_of_panels, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_HEIGHT_OF_LAYER = 0.18  # inches
_LETTERS_OF_NAME = 20


def diagnosis(found) -> "Figure":
    """Each layer's posterior beside its prior, and what averaging gains.

    The upper panel shows the standard deviation of each layer's values under q, under
    the prior, and as the bound asks for. A layer with q far left of the last is too
    sure; with q on the prior it has collapsed. The lower panel shows gains of averaging
    over the centre with 95 % intervals; right of 0 is better.

    Args:
        found: What `bhn_tf.diagnose` returns.

    Returns:
        The figure.

    Raises:
        ImportError: if matplotlib is not installed.

    Example:
    ```python
    figure = bhn_tf.plots.diagnosis(bhn_tf.diagnose(model, x_test, y_test))
    ```
    """
    gains = {
        name.removeprefix("gain_of_").replace("_", " "): gain
        for name, gain in found.measurements.items()
        if name.startswith("gain_of_")
    }
    height = _HEIGHT_OF_LAYER * len(found.layers)
    below = 0.6 + 0.2 * len(gains)
    if not found.layers:
        figure = new_figure(below)
        _draw_gains(figure.subplots(), gains)
        return figure
    figure = new_figure(0.7 + height + below)
    above, beneath = figure.subplots(2, 1, height_ratios=(0.7 + height, below))
    _draw_gains(beneath, gains)
    _draw_layers(above, found.layers)
    return figure


def _draw_layers(ax, layers):
    places = np.arange(len(layers))
    stddev = np.array([layer.stddev for layer in layers])
    width = np.array([layer.width.value for layer in layers])
    asked = np.divide(stddev, width, out=np.full(len(layers), np.nan), where=width > 0)
    series = (
        ("posterior", stddev, {"marker": "o", "color": COLORS[0]}),
        ("as the bound asks", asked, {"marker": "|", "color": COLORS[1]}),
        (
            "prior",
            np.array([layer.prior_stddev for layer in layers]),
            {"marker": "s", "color": "0.3", "markerfacecolor": "white"},
        ),
    )
    for label, values, style in series:
        ax.plot(values, places, linestyle="", label=label, **style)
    ax.set_xscale("log")
    ax.set_ylim(len(layers) - 0.5, -0.5)
    label_axes(ax, "standard deviation", "")
    # The end of a path, which distinguishes layers in most networks.
    names = [layer.name.split("/")[-1][:_LETTERS_OF_NAME] for layer in layers]
    ax.set_yticks(places, names)
    legend_of_panels(ax)


def _draw_gains(ax, gains):
    places = np.arange(len(gains))
    values = np.array(list(gains.values()))
    errors = np.abs(values[:, 1:].T - values[:, 0])
    ax.errorbar(values[:, 0], places, xerr=errors, fmt="o", color=COLORS[0], ms=4)
    ax.axvline(0, color="0.4", linewidth=0.8)
    ax.set_ylim(len(gains) - 0.5, -0.5)
    label_axes(ax, "gain of averaging", "")
    ax.set_yticks(places, list(gains))
