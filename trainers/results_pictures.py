"""Pictures of tables of results: every run, beside the same run of the others."""

import numpy as np

from bhn_tf.plots.style import COLORS, label_axes, new_figure


def paired_boxes(values: dict[str, dict[str, dict[int, float]]]):
    """Draws a box for each row and a line for each run, for every measure.

    Args:
        values: `{label of the measure: {label of the row: {number: value}}}`.

    Returns:
        A matplotlib figure.
    """
    figure = new_figure(height=1.9 * len(values))
    panels = np.ravel(figure.subplots(len(values), 1))
    for ax, (label, by_row) in zip(panels, values.items(), strict=True):
        places = range(len(by_row))
        numbers = set.intersection(*map(set, by_row.values()))
        for number in sorted(numbers):
            line = [by_number[number] for by_number in by_row.values()]
            ax.plot(places, line, color="0.75", linewidth=0.6, marker=".", zorder=1)
        ax.boxplot(
            [list(by_number.values()) for by_number in by_row.values()],
            positions=places,
            widths=0.4,
            zorder=2,
            medianprops={"color": COLORS[0]},
        )
        ax.set_xticks(places, list(by_row))
        label_axes(ax, "", label)
    return figure
