"""Figures, drawn with real matplotlib, show the data and change no global state."""

import os
import subprocess
import sys

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure

from bhn_tf import metrics, plots


@pytest.fixture(scope="module")
def predictions():
    """Labels [500] and the probabilities [500, 4] of two methods."""
    generator = np.random.default_rng(0)
    logits = generator.normal(size=(500, 4))
    gumbel = generator.gumbel(size=(500, 4))
    labels = (logits + gumbel).argmax(axis=1)

    def softmax(z):
        p = np.exp(z - z.max(axis=1, keepdims=True))
        return p / p.sum(axis=1, keepdims=True)

    return labels, {"honest": softmax(logits), "overconfident": softmax(4 * logits)}


def draw_all(predictions, ax=lambda: None):
    labels, methods = predictions
    scores = {name: 1 - p.max(axis=1) for name, p in methods.items()}
    curves = {
        name: metrics.risk_coverage(scores[name], methods[name].argmax(1) != labels)
        for name in methods
    }
    x = np.linspace(-1, 1, 20)[:, np.newaxis]
    return {
        "reliability": plots.reliability_diagram(labels, methods, ax=ax()),
        "scores": plots.score_histograms(scores, "max_probability", ax=ax()),
        "risk": plots.risk_coverage_curve(curves, ax=ax()),
        "acquisition": plots.acquisition_curves(
            {"bald": ([20, 30], [[0.5, 0.7], [0.6, 0.7]])}, 0.9, ax=ax()
        ),
        "regression": plots.regression_bands(
            x, np.sin(x), 0.1 + x**2, [0.0, 0.5], [0.1, 0.6], ax=ax()
        ),
    }


def legend_texts(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def test_figures_have_column_width_labels_and_readable_text(predictions):
    for figure in draw_all(predictions).values():
        assert isinstance(figure, Figure)
        assert figure.get_figwidth() == pytest.approx(3.3)
        figure.canvas.draw()
        width, height = figure.canvas.get_width_height()
        for ax in figure.axes:
            assert ax.get_ylabel()
            assert {t.get_fontsize() for t in ax.get_yticklabels()} == {8}
            # Labels and the legend push nothing aside.
            box = ax.get_window_extent()
            assert box.width > 0.6 * width and box.height > 0.1 * height
            if ax.get_legend():
                legend = ax.get_legend().get_window_extent()
                assert legend.x0 >= 0 and legend.x1 <= width and legend.y1 <= height
                assert legend.y0 >= box.y1 - 1
        assert figure.axes[-1].get_xlabel()


def test_long_and_many_names_leave_room_for_the_data():
    generator = np.random.default_rng(0)
    names = ["a data set with a rather long name, " * 2 + str(i) for i in range(8)]
    scores = {name: generator.random(100) for name in names}
    figure = plots.score_histograms(scores, "predictive_entropy")
    figure.canvas.draw()
    box = figure.axes[0].get_window_extent()
    width, _ = figure.canvas.get_width_height()
    assert box.width > 0.6 * width and box.height > 100
    assert figure.axes[0].get_legend().get_window_extent().x1 <= width


def test_given_axes_are_drawn_on(predictions):
    figure = Figure(figsize=(8, 8))
    axes = iter(figure.subplots(5, 1).flat)
    figures = draw_all(predictions, ax=lambda: next(axes))
    assert all(drawn is figure for drawn in figures.values())
    assert len(figure.axes) == 5 and tuple(figure.get_size_inches()) == (8, 8)
    assert all(ax.get_xlabel() and ax.get_ylabel() for ax in figure.axes)


def test_no_global_settings_are_touched(predictions):
    before = dict(matplotlib.rcParams)
    draw_all(predictions)
    assert dict(matplotlib.rcParams) == before


def test_pyplot_does_not_hold_the_figures(predictions):
    from matplotlib import pyplot

    before = pyplot.get_fignums()
    draw_all(predictions)
    assert pyplot.get_fignums() == before


@pytest.mark.slow
def test_without_matplotlib_only_drawing_fails_with_the_command():
    code = """
import sys
sys.modules["matplotlib"] = None
from bhn_tf import plots
try:
    plots.risk_coverage_curve({"model": ([0.5, 1], [0, 0.1])})
except ImportError as error:
    print(error)
"""
    process = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert process.returncode == 0, process.stderr
    assert process.stdout.count("\n") == 1
    assert "pip install 'bhn-tf[trainers]'" in process.stdout


def test_reliability_shows_the_error_that_the_metric_computes(predictions):
    labels, methods = predictions
    figure = plots.reliability_diagram(labels, methods, num_bins=10)
    diagram, counts = figure.axes
    for name, probabilities in methods.items():
        metric = metrics.ExpectedCalibrationError(num_bins=10)
        metric.update_state(labels, probabilities)
        expected = f"{name} (ECE {100 * float(metric.result()):.2g} %)"
        assert expected in legend_texts(diagram)
    for patch, probabilities in zip(counts.patches, methods.values(), strict=True):
        values, edges, _ = patch.get_data()
        assert values.sum() == len(labels) and len(edges) == 11
        expected = metrics.reliability(labels, probabilities, 10).count
        np.testing.assert_array_equal(values, expected)


@pytest.mark.parametrize("num_methods", [1, 5])
def test_reliability_without_bins_of_few_rows_is_not_squashed(num_methods):
    probabilities = np.full([1_000, 10], 0.1) + np.eye(10)[0] * 1e-3
    methods = {f"method {index}": probabilities for index in range(num_methods)}
    figure = plots.reliability_diagram(np.zeros(1_000, int), methods)
    figure.canvas.draw()
    heights = [ax.get_window_extent().height for ax in figure.axes]
    assert heights[0] > 150 and heights[1] > 50


def test_reliability_marks_bins_of_few_rows():
    probabilities = np.tile([[0.9, 0.1]], (40, 1))
    probabilities[:3] = [0.4, 0.6]
    labels = np.zeros(40, int)
    diagram = plots.reliability_diagram(labels, probabilities).axes[0]
    assert "bin of under 20 rows" in legend_texts(diagram)
    hollow = [
        line
        for line in diagram.lines
        if line.get_markerfacecolor() == "white" and len(line.get_xdata())
    ]
    np.testing.assert_allclose([line.get_xdata() for line in hollow], [[0.6]])
    np.testing.assert_allclose([line.get_ydata() for line in hollow], [[0.0]])
    full = plots.reliability_diagram(labels, np.tile([[0.9, 0.1]], (40, 1))).axes[0]
    assert "bin of under 20 rows" not in legend_texts(full)


def test_score_histograms_share_bins_and_are_normalised():
    scores = {"in": np.linspace(0, 1, 50), "out": np.linspace(0.5, 2, 3000)}
    figure = plots.score_histograms(scores, "mutual_information", num_bins=20)
    ax = figure.axes[0]
    assert ax.get_xlabel() == "mutual information (nats)"
    assert legend_texts(ax) == ["in", "out"]
    data = [patch.get_data() for patch in ax.patches]
    for values, edges, _ in data:
        assert values.sum() == pytest.approx(1)
        np.testing.assert_array_equal(edges, data[0][1])
    assert (edges[0], edges[-1], len(edges)) == (0, 2, 21)


def test_score_histograms_count_what_cannot_be_drawn():
    scores = {"in": [0.1, np.nan, 0.3, np.inf], "out": [0.5, 0.5]}
    ax = plots.score_histograms(scores, "a score of my own").axes[0]
    assert legend_texts(ax) == ["in (2 not finite)", "out"]
    assert ax.get_xlabel() == "a score of my own"
    with pytest.raises(ValueError, match="'in' is finite"):
        plots.score_histograms({"in": [np.nan]}, "mean_std")


@pytest.mark.parametrize(
    "values", [[1.0, 1.0 + 2.3e-16], [1e30, 1e30], [0.0, 5e-324]], ids=str
)
def test_scores_that_differ_by_rounding_are_drawn(values):
    ax = plots.score_histograms({"in": values}, "mean_std").axes[0]
    assert max(ax.patches[0].get_data().values) == 1


def test_equal_scores_can_be_drawn():
    # A deterministic model has mutual information 0 everywhere.
    scores = {"in": np.zeros(5), "out": np.zeros(7)}
    for log in (True, False):
        figure = plots.score_histograms(scores, "mutual_information", log=log)
        figure.canvas.draw()


def test_risk_coverage_shows_the_curve_and_its_area():
    curve = metrics.risk_coverage([0.1, 0.2, 0.3, 0.4], [0, 0, 1, 1])
    curves = {"model": curve, "plain": ([0.5, 1.0], [0.0, 0.0])}
    ax = plots.risk_coverage_curve(curves).axes[0]
    np.testing.assert_allclose(ax.lines[0].get_xdata(), curve.coverage)
    np.testing.assert_allclose(ax.lines[0].get_ydata(), curve.risk)
    assert legend_texts(ax) == [f"model (area {curve.aurc:.2g})", "plain"]


def test_acquisition_curves_are_means_with_the_range_of_seeds():
    runs = np.array([[0.5, 0.7], [0.6, 0.9], [0.4, 0.8]])
    curves = {"bald": ([20, 30], runs), "random": ([20, 30], [0.5, 0.6])}
    ax = plots.acquisition_curves(curves, target=0.9).axes[0]
    assert legend_texts(ax) == ["target 0.9", "bald", "random"]
    np.testing.assert_allclose(ax.lines[1].get_ydata(), [0.5, 0.8])
    (band,) = ax.collections
    vertices = band.get_paths()[0].vertices
    for x_value, low, high in ((20, 0.4, 0.6), (30, 0.7, 0.9)):
        y = vertices[vertices[:, 0] == x_value, 1]
        np.testing.assert_allclose([y.min(), y.max()], [low, high])


def test_regression_bands_are_multiples_of_the_standard_deviation():
    x = np.array([1.0, 0.0, 0.5])
    mean, std = np.array([3.0, 1.0, 2.0]), np.array([0.3, 0.1, 0.2])
    figure = plots.regression_bands(x, mean, std, [2.0], [4.0], bands=(1, 2))
    ax = figure.axes[0]
    widest, inner = (band.get_paths()[0].vertices for band in ax.collections)
    for vertices, width in ((widest, 2), (inner, 1)):
        for x_value, m, s in zip(x, mean, std, strict=True):
            y = vertices[np.isclose(vertices[:, 0], x_value), 1]
            np.testing.assert_allclose(
                [y.min(), y.max()], [m - width * s, m + width * s]
            )
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), [1, 2, 3])
    # Training data outside the grid of `x` stay visible.
    assert ax.get_xlim()[1] == pytest.approx(2.0)


@pytest.mark.parametrize(
    "draw, message",
    [
        (lambda: plots.reliability_diagram([0], {}), "at least one entry"),
        (lambda: plots.score_histograms({}, "mean_std"), "at least one entry"),
        (lambda: plots.score_histograms([[1.0]], "mean_std"), "dictionary"),
        (lambda: plots.score_histograms({"in": []}, "mean_std"), "'in'.*at least one"),
        (
            lambda: plots.risk_coverage_curve({"a": ([1, 2], [1])}),
            "risk of 'a'.*2 rows",
        ),
        (
            lambda: plots.acquisition_curves({"a": ([1, 2], [[1], [2]])}),
            "accuracy of 'a'.*2 rows",
        ),
        (
            lambda: plots.regression_bands([1, 2], [1], [1, 1], [0], [0]),
            "mean to have the shape.*2 rows",
        ),
        (
            lambda: plots.regression_bands([1], [1], [-1], [0], [0]),
            "must not be negative",
        ),
    ],
)
def test_mistakes_are_explained(draw, message):
    with pytest.raises(ValueError, match=message):
        draw()


@pytest.fixture
def figure():
    return plots.risk_coverage_curve({"model": ([0.5, 1.0], [0.0, 0.1])})


@pytest.mark.parametrize("ending", ["png", "pdf", "svg", "PNG"])
def test_save_writes_the_format_of_the_name(figure, tmp_path, ending):
    path = plots.save(figure, tmp_path / f"figure.{ending}")
    start = {"png": b"\x89PNG", "pdf": b"%PDF", "svg": b"<?xml"}[ending.lower()]
    assert path.read_bytes().startswith(start)
    assert [f.name for f in tmp_path.iterdir()] == [path.name]


def test_save_has_150_dots_per_inch(figure, tmp_path):
    path = plots.save(figure, tmp_path / "figure.png")
    width = int.from_bytes(path.read_bytes()[16:20], "big")
    assert width == round(3.3 * 150)


def test_a_failed_save_leaves_the_old_file_and_nothing_else(
    figure, tmp_path, monkeypatch
):
    path = tmp_path / "figure.png"
    path.write_bytes(b"old")

    def fail(self, target, **kwargs):
        target.write_bytes(b"half")
        raise OSError("no space left on device")

    monkeypatch.setattr(Figure, "savefig", fail)
    with pytest.raises(OSError, match="no space"):
        plots.save(figure, path)
    assert path.read_bytes() == b"old"
    assert [f.name for f in tmp_path.iterdir()] == ["figure.png"]


@pytest.mark.parametrize("name", ["figure", "figure.xyz"])
def test_save_refuses_an_unknown_ending(figure, tmp_path, name):
    with pytest.raises(ValueError, match="'png'"):
        plots.save(figure, tmp_path / name)
    assert not list(tmp_path.iterdir())
