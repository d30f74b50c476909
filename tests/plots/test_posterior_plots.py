"""Figures of posteriors: what is drawn."""

import numpy as np
import pytest

from bhn_tf import plots


def texts(legend):
    return [text.get_text() for text in legend.get_texts()]


def gaussian_grid():
    axis = np.linspace(-4, 4, 81)
    return axis, np.exp(-0.5 * (axis[:, None] ** 2 / 0.25 + axis**2))


def test_two_weights_has_a_panel_with_all_draws_for_each_method():
    axis, density = gaussian_grid()
    draws = {name: np.full([7, 2], 0.1) for name in ("one", "two", "three")}
    figure = plots.two_weights(draws, axis, density)
    panels = [ax for ax in figure.axes if ax.axison]
    assert [ax.get_title(loc="left") for ax in panels] == list(draws)
    assert all(len(ax.lines[0].get_xdata()) == 7 for ax in panels)
    figure.canvas.draw()


def test_contours_hold_the_shares_that_the_legend_names():
    from bhn_tf.plots.two_weights import _levels

    _, density = gaussian_grid()
    levels = np.array(_levels(density))
    shares = [density[density >= level].sum() / density.sum() for level in levels]
    np.testing.assert_allclose(shares, [0.95, 0.8, 0.5, 0.2], atol=0.02)
    figure = plots.two_weights({"one": np.zeros([3, 2])}, *gaussian_grid())
    assert "20, 50, 80, 95" in texts(figure.legends[0])[1]


def test_p_value_histogram_is_normalised_and_names_the_share_of_small_ones():
    p_values = np.concatenate([np.full(30, 0.01), np.linspace(0.1, 1, 70)])
    ax = plots.p_value_histogram({"hypernet": p_values}, num_bins=10).axes[0]
    assert ax.patches[-1].get_data().values.sum() == pytest.approx(1.0)
    assert "hypernet (30 % below 0.05)" in texts(ax.get_legend())


def test_scatter_matrix_shows_each_pair_both_ways():
    draws = np.random.default_rng(0).normal(size=(20, 3))
    axes = np.reshape(plots.scatter_matrix(draws, ["a", "b", "c"]).axes, (3, 3))
    np.testing.assert_array_equal(axes[2, 0].lines[0].get_xdata(), draws[:, 0])
    np.testing.assert_array_equal(axes[2, 0].lines[0].get_ydata(), draws[:, 2])
    assert axes[2, 1].get_xlabel() == "b" and axes[1, 0].get_ylabel() == "b"


def test_regression_panels_share_axes_around_the_data():
    wide = ([0.0, 1.0], [50.0, 50.0])
    predictions = {"narrow": ([0.0, 1.0], [0.1, 0.1]), "wide": wide}
    figure = plots.regression_panels([0, 1], predictions, [0.2, 0.8], [0.0, 2.0])
    assert [ax.get_title(loc="left") for ax in figure.axes] == ["narrow", "wide"]
    assert all(ax.get_ylim() == (-3.0, 5.0) for ax in figure.axes)


def test_std_curves_shade_the_data():
    stds = {"hypernet": [0.1, 0.2], "exact": [[0.1], [0.3]]}
    ax = plots.std_curves([0, 1], stds, (0, 0.5)).axes[0]
    assert ax.get_yscale() == "log"
    assert texts(ax.get_legend()) == ["training data", "hypernet", "exact"]
    np.testing.assert_array_equal(ax.lines[1].get_ydata(), [0.1, 0.3])


def test_std_curves_are_drawn_from_left_to_right():
    (line,) = plots.std_curves([2, 0, 1], {"a": [3, 1, 2]}).axes[0].lines
    np.testing.assert_array_equal(line.get_xydata(), [[0, 1], [1, 2], [2, 3]])


def test_lines_of_equal_density_are_drawn_once():
    figure = two_weights_over(np.eye(3))
    figure.canvas.draw()


def two_weights_over(density, draw=0.0):
    return plots.two_weights({"a": np.full([2, 2], draw)}, [-1, 0, 1], density)


@pytest.mark.parametrize(
    "draw, message",
    [
        (lambda: plots.two_weights({}, [0, 1], np.ones([2, 2])), "at least one entry"),
        (
            lambda: plots.two_weights({"a": [[0, 1]]}, [0, 1], np.ones([2, 3])),
            "`density`",
        ),
        (
            lambda: plots.two_weights({"a": [0, 1]}, [0, 1], np.eye(2)),
            "draws of 'a'",
        ),
        (lambda: plots.p_value_histogram({"a": [1.5]}), "between 0 and 1"),
        (lambda: plots.scatter_matrix(np.ones([5, 1])), "at least two weights"),
        (lambda: plots.scatter_matrix(np.ones([5, 2]), ["a"]), "1 names"),
        (lambda: plots.scatter_matrix(np.full([5, 2], np.nan)), "10 of them NaN"),
        (lambda: plots.scatter_matrix(np.ones([0, 2])), "at least one"),
        (lambda: plots.regression_panels([0], {}, [0], [0]), "at least one entry"),
        (lambda: plots.std_curves([0, 1], {"a": [1]}), "std of 'a'.*2 rows"),
        (lambda: plots.std_curves([0, 1], {"a": [-1, 1]}), "std of 'a'.*negative"),
        (lambda: plots.std_curves([0, np.nan], {"a": [1, 1]}), "`x` to be finite"),
        (
            lambda: plots.regression_panels([0], {"a": ([0], [1])}, [0], [np.nan]),
            "`y_train` to be finite",
        ),
        (lambda: plots.p_value_histogram({"a": [0.5]}, num_bins=0), "`num_bins`"),
        (lambda: two_weights_over(np.zeros([3, 3])), "`density`.*from 0 to 0"),
        (lambda: two_weights_over(np.full([3, 3], np.nan)), "`density` to be finite"),
        (lambda: two_weights_over(-np.eye(3)), "`density`.*from -1 to"),
        (lambda: two_weights_over(np.eye(3), np.nan), "draws of 'a' to be finite"),
    ],
)
def test_mistakes_are_explained(draw, message):
    with pytest.raises(ValueError, match=message):
        draw()
