"""Histograms of a score on several data sets."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from bhn_tf.arguments import check_count
from bhn_tf.plots.arguments import require_entries, require_same_names, row
from bhn_tf.plots.style import (
    COLORS,
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


_SCORE_LABELS = {
    "max_probability": "1 − largest class probability",
    "variation_ratio": "variation ratio (share of draws)",
    "predictive_entropy": "predictive entropy (nats)",
    "expected_entropy": "expected entropy (nats)",
    "mutual_information": "mutual information (nats)",
    "mean_std": "mean standard deviation of probabilities",
}


def score_label(name: str) -> str:
    """The label of a score on an axis or a panel, with its unit.

    Args:
        name: a name in `bhn_tf.uncertainty.SCORES`; other texts are returned unchanged.

    Example:
        >>> score_label("predictive_entropy")
        'predictive entropy (nats)'
    """
    return _SCORE_LABELS.get(name, name)


def score_histograms(
    scores: Mapping[str, ArrayLike],
    score_name: str,
    num_bins: int = 30,
    *,
    log: bool = True,
    ax: "Axes | None" = None,
) -> "Figure":
    """How one score of uncertainty is distributed on each of several data sets.

    All sets share their bins; each is normalised, so that sets of different size can be
    compared. The first set, meant to be the in-distribution one, is filled. Scores that
    are NaN or infinite are left out and counted in the legend.

    Args:
        scores: name of a data set -> scores [rows], the in-distribution set first.
        score_name: a name in `bhn_tf.uncertainty.SCORES`, which gets its unit (nats for
            entropies), or any other text for the axis.
        num_bins: the number of bins from the smallest to the largest score.
        log: whether the share of rows has a logarithmic axis, which shows the few
            in-distribution rows of high score that resemble anomalies.
        ax: axes to draw on.

    Returns:
        The figure.

    Raises:
        ImportError: if matplotlib is not installed.
        ValueError: if a set has no finite scores, or there is no bin.

    Example:
        >>> sets = {"digits": [0.1, 0.2], "noise": [1.1, 1.4]}
        >>> figure = score_histograms(sets, "predictive_entropy")
        >>> figure.axes[0].get_xlabel()
        'predictive entropy (nats)'
    """
    require_entries(scores, "scores")
    check_count("num_bins", num_bins, minimum=1)
    finite, names = [], []
    for name, values in scores.items():
        values = row(values, f"the scores of {name!r}")
        is_finite = np.isfinite(values)
        if not is_finite.any():
            raise ValueError(
                f"No score of {name!r} is finite: there is nothing to draw."
            )
        left_out = len(values) - is_finite.sum()
        finite.append(values[is_finite])
        names.append(f"{name} ({left_out} not finite)" if left_out else name)
    edges = _edges(np.concatenate(finite), num_bins)
    is_own_figure = ax is None
    ax = new_axes(height=2.2) if ax is None else ax
    for index, (name, values) in enumerate(zip(names, finite, strict=True)):
        share = np.histogram(values, edges)[0] / len(values)
        if index == 0:
            ax.stairs(share, edges, fill=True, color=COLORS[0], alpha=0.35)
        ax.stairs(share, edges, baseline=None, label=name, **line_style(index))
    if log:
        ax.set_yscale("log")
    else:
        ax.set_ylim(bottom=0)
    label_axes(ax, score_label(score_name), "share of rows per bin")
    legend_above(ax, is_own_figure)
    return figure_of(ax)


def score_panels(
    scores: Mapping[str, Mapping[str, ArrayLike]], score_name: str, num_bins: int = 30
) -> "Figure":
    """The histograms of several methods below each other, on a common axis.

    Args:
        scores: name of a method -> name of a data set -> scores [rows], the
            in-distribution set first.
        score_name: as in `score_histograms`.
        num_bins: the number of bins of each panel.

    Returns:
        The figure.

    Raises:
        ImportError: if matplotlib is not installed.
        ValueError: if there is no method, methods have other sets than the first, or a
            set has no finite scores.

    Example:
        >>> sets = {"digits": [0.1, 0.2], "noise": [1.1, 1.4]}
        >>> figure = score_panels({"one": sets, "other": sets}, "predictive_entropy")
        >>> len(figure.axes)
        2
    """
    require_entries(scores, "scores")
    require_same_names(scores, "scores")
    figure = new_figure(height=0.4 + 1.2 * len(scores))
    panels = figure.subplots(len(scores), 1, sharex=True, sharey=True, squeeze=False)
    for (name, sets), ax in zip(scores.items(), panels[:, 0], strict=True):
        score_histograms(sets, score_name, num_bins, ax=ax)
        ax.set_title(name, fontsize=8, loc="left")
        ax.get_legend().remove()
        ax.label_outer()
        ax.set_ylabel("")
    legend_of_panels(panels[0, 0])
    figure.supylabel("share of rows per bin", fontsize=8)
    return figure


def _edges(values, num_bins):
    """Edges of bins over the values, or around them if they differ only by rounding."""
    size, low, high = np.abs(values).max(), values.min(), values.max()
    if high - low > 1e-9 * max(size, np.finfo(float).tiny):
        return np.histogram_bin_edges(values, num_bins)
    width = max(size, 1.0)
    return np.linspace(low - width / 2, high + width / 2, num_bins + 1)
