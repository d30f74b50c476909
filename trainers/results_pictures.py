"""Pictures of tables of results: every run, beside the same run of the others."""

import numpy as np

from bhn_tf.plots.style import COLORS, label_axes, new_figure

_PANELS_IN_A_ROW = 2


def paired_boxes(values: dict[str, dict[str, dict[int, float]]]):
    """Draws a box for each row and a line for each run, for every measure.

    Args:
        values: `{label of the measure: {label of the row: {number: value}}}`.

    Returns:
        A matplotlib figure.
    """
    num_rows = -(-len(values) // _PANELS_IN_A_ROW)
    figure = new_figure(height=1.9 * num_rows)
    figure.set_figwidth(_PANELS_IN_A_ROW * figure.get_figwidth())
    panels = np.ravel(figure.subplots(num_rows, _PANELS_IN_A_ROW))
    for ax in panels[len(values) :]:
        ax.remove()
    for ax, (label, by_row) in zip(panels, values.items(), strict=False):
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
