"""Generated data: noise images and the toy regression."""

import numpy as np
import pytest

from bhn_tf import data


@pytest.mark.parametrize(
    "make, mean, std", [(data.uniform, 0.5, 12**-0.5), (data.gaussian, 0.0, 1.0)]
)
def test_noise_has_its_distribution_and_seed(make, mean, std):
    x = make(1000, (10, 12, 3), seed=3)
    assert x.shape == (1000, 10, 12, 3) and x.dtype == np.float32
    np.testing.assert_allclose([x.mean(), x.std()], [mean, std], atol=0.005)
    np.testing.assert_array_equal(x, make(1000, (10, 12, 3), seed=3))
    assert (x != make(1000, (10, 12, 3), seed=4)).mean() > 0.99


def test_noise_range():
    x = data.uniform(1000, (28, 28, 1))
    assert x.min() >= 0 and x.max() <= 1
    x = data.gaussian(1000, (28, 28, 1))
    assert x.min() < -3 and x.max() > 3


def test_loaded_noise_is_that_of_the_functions():
    for name, make in (("uniform", data.uniform), ("gaussian", data.gaussian)):
        x, y = data.load(name, "all")
        np.testing.assert_array_equal(x, make(10_000, (28, 28, 1)))
        assert not y.any()


@pytest.mark.parametrize(
    "num_examples, shape", [(0, (2, 2, 1)), (3, (2, 0, 1)), (3, None)]
)
@pytest.mark.parametrize("make", [data.uniform, data.gaussian])
def test_empty_noise_is_refused(make, num_examples, shape):
    with pytest.raises(ValueError, match="positive whole number"):
        make(num_examples, shape)


def test_blundell_follows_its_formula():
    x, y = data.blundell(200_000)
    assert x.shape == y.shape == (200_000, 1)
    assert x.dtype == y.dtype == np.float32
    assert x.min() >= 0 and x.max() <= 0.5
    np.testing.assert_allclose(x.mean(), 0.25, atol=0.002)
    # Around x = 0 the noise e is multiplied by the slope of the right-hand side.
    near_zero = x < 0.002
    slope = 1 + 0.3 * 2 * np.pi + 0.3 * 4 * np.pi
    np.testing.assert_allclose(y[near_zero].std(), 0.02 * slope, rtol=0.1)


def test_the_noise_free_curve_is_the_mean_up_to_the_noise_inside_the_sines():
    x, y = data.blundell(100_000)
    curve = data.blundell_noise_free(x)
    assert curve.shape == x.shape
    assert abs((y - curve).mean()) < 0.005
    np.testing.assert_allclose(data.blundell_noise_free(np.array([0.0, 0.5])), [0, 0.5])


def test_blundell_seeds_and_splits():
    x, y = data.blundell(50, seed=5)
    again_x, again_y = data.blundell(50, seed=5)
    np.testing.assert_array_equal(x, again_x)
    np.testing.assert_array_equal(y, again_y)
    assert (x != data.blundell(50, seed=6)[0]).all()
    splits = data.load("blundell")
    assert {s: x.shape for s, (x, _) in splits.items()} == {
        "train": (1000, 1),
        "test": (1000, 1),
    }
    assert not np.intersect1d(splits["train"][0], splits["test"][0]).size


@pytest.mark.parametrize("num_examples", [0, -1, 2.5])
def test_an_empty_regression_is_refused(num_examples):
    with pytest.raises(ValueError, match="num_examples"):
        data.blundell(num_examples)
