"""Pictures of tables of results: every seed, beside the same seed of the others."""

import numpy as np

from bhn_tf.plots.style import COLORS, label_axes, new_figure


def paired_boxes(values: dict[str, dict[str, dict[int, float]]]):
    """Draws a box for each row and a line for each seed, for every measure.

    Args:
        values: `{label of the measure: {label of the row: {seed: value}}}`.

    Returns:
        A matplotlib figure.
    """
    figure = new_figure(height=1.9 * len(values))
    panels = np.ravel(figure.subplots(len(values), 1))
    for ax, (label, by_row) in zip(panels, values.items(), strict=True):
        places = range(len(by_row))
        seeds = set.intersection(*map(set, by_row.values()))
        for seed in sorted(seeds):
            line = [by_seed[seed] for by_seed in by_row.values()]
            ax.plot(places, line, color="0.75", linewidth=0.6, marker=".", zorder=1)
        ax.boxplot(
            [list(by_seed.values()) for by_seed in by_row.values()],
            positions=places,
            widths=0.4,
            zorder=2,
            medianprops={"color": COLORS[0]},
        )
        ax.set_xticks(places, list(by_row))
        label_axes(ax, "", label)
    return figure
