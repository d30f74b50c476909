"""Figures of uncertainty, readable at the width of a paper's column.

Each function returns a matplotlib `Figure`, or draws on the `ax` that it is given.
Nothing goes through `pyplot` and no global setting is changed, so that figures can be
made in threads, on servers and in notebooks (where `%matplotlib inline` shows them).
`save` writes them to files.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from bhn_tf.figures import (
    COLORS,
    label_axes,
    legend_above,
    line_style,
    marker,
    new_axes,
    new_figure,
    save,
    tint,
)
from bhn_tf.metrics import Reliability, reliability

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "regression_bands",
    "reliability_diagram",
    "risk_coverage_curve",
    "save",
    "score_histograms",
]

_SCORE_LABELS = {
    "max_probability": "1 − largest class probability",
    "variation_ratio": "variation ratio (share of draws)",
    "predictive_entropy": "predictive entropy (nats)",
    "expected_entropy": "expected entropy (nats)",
    "mutual_information": "mutual information (nats)",
    "mean_std": "mean standard deviation of probabilities",
}
# Below this, the accuracy in a bin is mostly chance.
_FEW_ROWS = 20
_FEW_MARKER = {"linestyle": "", "markersize": 2.5, "markerfacecolor": "white"}


def reliability_diagram(
    labels: ArrayLike,
    probabilities_by_method: Mapping[str, ArrayLike] | ArrayLike,
    num_bins: int = 15,
    *,
    ax: "Axes | None" = None,
) -> "Figure":
    """Accuracy against confidence: on the diagonal, confidence can be taken literally.

    One marker a bin of confidence; the thin vertical line from it to the diagonal is
    the gap that the expected calibration error (ECE, in the legend) averages over rows.
    Below the diagonal the model is overconfident. Bins of less than 20 rows, where
    accuracy is mostly chance, have small hollow markers. The lower panel counts rows.

    Args:
        labels: integer labels [rows].
        probabilities_by_method: name of a method -> its probabilities [rows, C], or one
            such array.
        num_bins: the number of bins of equal width on [0, 1].
        ax: axes to draw the diagram on, without the panel of counts.

    Returns:
        The figure.

    Raises:
        ImportError: if matplotlib is not installed.
        ValueError: if there is no method, or rows do not match.

    Example:
        >>> figure = reliability_diagram([0, 1], [[0.8, 0.2], [0.4, 0.6]])
        >>> len(figure.axes)
        2
    """
    if not isinstance(probabilities_by_method, Mapping):
        probabilities_by_method = {"model": probabilities_by_method}
    _require_entries(probabilities_by_method, "probabilities_by_method")
    bins = {
        name: reliability(labels, probabilities, num_bins)
        for name, probabilities in probabilities_by_method.items()
    }
    is_own_figure, counts_ax = ax is None, None
    if is_own_figure:
        figure = new_figure(height=3.4)
        ax, counts_ax = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    ax.plot([0, 1], [0, 1], color="0.6", linewidth=0.8, label="calibrated")
    for index, (name, found) in enumerate(bins.items()):
        _draw_reliability(ax, name, found, index)
    if any(((b.count > 0) & (b.count < _FEW_ROWS)).any() for b in bins.values()):
        label = f"bin of under {_FEW_ROWS} rows"
        ax.plot([], [], color="0.4", marker="o", label=label, **_FEW_MARKER)
    ax.set(xlim=(0, 1), ylim=(0, 1))
    label_axes(ax, "" if counts_ax else "confidence", "accuracy")
    legend_above(ax, is_own_figure)
    if counts_ax:
        _draw_counts(counts_ax, bins.values())
    return ax.figure


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
            in-distribution rows of high score that an anomaly must be told from.
        ax: axes to draw on.

    Returns:
        The figure.

    Raises:
        ImportError: if matplotlib is not installed.
        ValueError: if a set has no scores, or none that is finite.

    Example:
        >>> sets = {"digits": [0.1, 0.2], "noise": [1.1, 1.4]}
        >>> figure = score_histograms(sets, "predictive_entropy")
        >>> figure.axes[0].get_xlabel()
        'predictive entropy (nats)'
    """
    _require_entries(scores, "scores")
    finite, names = [], []
    for name, values in scores.items():
        values = _row(values, f"the scores of {name!r}")
        is_finite = np.isfinite(values)
        if not is_finite.any():
            raise ValueError(
                f"No score of {name!r} is finite: there is nothing to draw."
            )
        left_out = len(values) - is_finite.sum()
        finite.append(values[is_finite])
        names.append(f"{name} ({left_out} not finite)" if left_out else name)
    edges = np.histogram_bin_edges(np.concatenate(finite), num_bins)
    is_own_figure = ax is None
    ax = new_axes(height=2.2) if is_own_figure else ax
    for index, (name, values) in enumerate(zip(names, finite, strict=True)):
        share = np.histogram(values, edges)[0] / len(values)
        if index == 0:
            ax.stairs(share, edges, fill=True, color=COLORS[0], alpha=0.35)
        ax.stairs(share, edges, baseline=None, label=name, **line_style(index))
    if log:
        ax.set_yscale("log")
    else:
        ax.set_ylim(bottom=0)
    label = _SCORE_LABELS.get(score_name, score_name)
    label_axes(ax, label, "share of rows per bin")
    legend_above(ax, is_own_figure)
    return ax.figure


def risk_coverage_curve(
    curves: Mapping[str, Sequence[ArrayLike]],
    *,
    ax: "Axes | None" = None,
) -> "Figure":
    """The error rate among the rows that are answered, if uncertain rows are rejected.

    Args:
        curves: name of a method -> (coverage [n], risk [n]), as the first two of
            `bhn_tf.metrics.risk_coverage`; its `aurc`, the area under the curve, is
            shown in the legend if it is there.
        ax: axes to draw on.

    Returns:
        The figure.

    Raises:
        ImportError: if matplotlib is not installed.
        ValueError: if there is no curve, or lengths differ.

    Example:
        >>> figure = risk_coverage_curve({"model": ([0.5, 1.0], [0.0, 0.1])})
        >>> figure.axes[0].get_ylabel()
        'error rate of answered rows'
    """
    _require_entries(curves, "curves")
    is_own_figure = ax is None
    ax = new_axes(height=2.2) if is_own_figure else ax
    for index, (name, curve) in enumerate(curves.items()):
        coverage = _row(curve[0], f"the coverage of {name!r}")
        risk = _row(curve[1], f"the risk of {name!r}", len(coverage))
        if hasattr(curve, "aurc"):
            name = f"{name} (area {curve.aurc:.2g})"
        ax.plot(coverage, risk, label=name, **line_style(index))
    ax.set_xlim(0, 1)
    ax.set_ylim(bottom=0)
    label_axes(ax, "coverage (share of rows answered)", "error rate of answered rows")
    legend_above(ax, is_own_figure)
    return ax.figure


def regression_bands(
    x: ArrayLike,
    mean: ArrayLike,
    std: ArrayLike,
    x_train: ArrayLike,
    y_train: ArrayLike,
    bands: Sequence[float] = (0.5, 1, 1.5, 2),
    *,
    ax: "Axes | None" = None,
) -> "Figure":
    """The predictive mean with bands of standard deviations, and the training data.

    As in figure 1 of "Bayesian Hypernetworks", each shade is half a standard deviation.

    Args:
        x: inputs [n] or [n, 1], in any order.
        mean: predictive mean at `x`, [n] or [n, 1].
        std: standard deviation at `x`, [n] or [n, 1], such as `epistemic_std`.
        x_train: inputs of the training data, [m] or [m, 1].
        y_train: outputs of the training data, [m] or [m, 1].
        bands: half-widths of the bands, in standard deviations.
        ax: axes to draw on.

    Returns:
        The figure.

    Raises:
        ImportError: if matplotlib is not installed.
        ValueError: if shapes do not match or a standard deviation is negative.

    Example:
        >>> figure = regression_bands([0, 1], [0, 1], [0.1, 0.2], [0.5], [0.4])
        >>> len(figure.axes)
        1
    """
    x = _row(x, "x")
    order = np.argsort(x)
    x = x[order]
    mean = _row(mean, "mean", len(x))[order]
    std = _row(std, "std", len(x))[order]
    x_train = _row(x_train, "x_train")
    y_train = _row(y_train, "y_train", len(x_train))
    if (std < 0).any():
        raise ValueError(
            f"`std` must not be negative; its smallest entry is {std.min():g}. A log "
            "variance, for example, becomes one by `np.exp(0.5 * log_variance)`."
        )
    is_own_figure = ax is None
    ax = new_axes(height=2.2) if is_own_figure else ax
    # Shades must not add up, or the label of the innermost would be of another colour.
    widest_first = sorted(bands, reverse=True)
    shades = np.linspace(0.9, 0.6, len(widest_first))
    for width, shade in zip(widest_first, shades, strict=True):
        color = tint(COLORS[0], shade)
        low, high = mean - width * std, mean + width * std
        ax.fill_between(
            x, low, high, color=color, linewidth=0, label=f"± {width:g} std"
        )
    ax.plot(x, mean, color=COLORS[0], linewidth=1.2, label="mean")
    style = dict(color=COLORS[1], linestyle="", marker="x", markersize=3.5)
    ax.plot(x_train, y_train, markeredgewidth=0.8, label="training data", **style)
    ax.margins(x=0)
    label_axes(ax, "x", "y")
    legend_above(ax, is_own_figure)
    return ax.figure


def _draw_reliability(ax: "Axes", name: str, found: Reliability, index: int) -> None:
    is_used = found.count > 0
    confidence, accuracy = found.confidence[is_used], found.accuracy[is_used]
    count = found.count[is_used]
    error = np.average(np.abs(accuracy - confidence), weights=count)
    style = line_style(index)
    color = style["color"]
    ax.vlines(confidence, confidence, accuracy, color=color, linewidth=0.7, alpha=0.6)
    enough = count >= _FEW_ROWS
    # Markers at 0 and 1 are drawn whole, over the edge of the axes.
    shared = {"color": color, "marker": marker(index), "clip_on": False}
    ax.plot(confidence[~enough], accuracy[~enough], **shared, **_FEW_MARKER)
    ax.plot(confidence[enough], accuracy[enough], linestyle="", markersize=4, **shared)
    label = f"{name} (ECE {100 * error:.2g} %)"
    ax.plot([], [], label=label, marker=marker(index), markersize=4, **style)


def _draw_counts(ax: "Axes", all_bins: Iterable[Reliability]) -> None:
    for index, found in enumerate(all_bins):
        edges = np.linspace(0, 1, len(found.count) + 1)
        ax.stairs(found.count, edges, baseline=None, **line_style(index))
    # Good models have nearly all rows in the last bin. From 0.7 on, a count of 1 shows.
    ax.set_yscale("log")
    ax.set_ylim(bottom=0.7)
    label_axes(ax, "confidence", "rows per bin")


def _row(values: ArrayLike, name: str, length: int | None = None) -> np.ndarray:
    array = np.asarray(values, dtype=float)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1 or not len(array) or length not in (None, len(array)):
        wanted = "at least one" if length is None else str(length)
        raise ValueError(
            f"{name} must have the shape [rows] or [rows, 1] with {wanted} rows; "
            f"received shape {list(array.shape)}."
        )
    return array


def _require_entries(entries: Mapping, name: str) -> None:
    if not isinstance(entries, Mapping) or not entries:
        raise ValueError(
            f"`{name}` must be a dictionary from name to values with at least one "
            f"entry, such as {{'model': ...}}; received {type(entries).__name__}."
        )
