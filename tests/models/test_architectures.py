"""Networks other than a stack of layers with one output train, and logs add up."""

import keras
import numpy as np
import pytest

import bhn_tf
from bhn_tf import likelihoods
from bhn_tf.baselines import DeepEnsemble, Deterministic
from bhn_tf.layers import (
    WeightNormConv1D,
    WeightNormConv2D,
    WeightNormConv2DTranspose,
    WeightNormDense,
)
from tests import networks
from tests.networks import assert_identity, realnvp


def fitted(primary, likelihood, x, y, epochs, batch_size):
    model = bhn_tf.BayesianHypernet(primary, realnvp(), likelihood)
    networks.compiled(model, keras.optimizers.Adam(2e-2))
    history = model.fit(
        x, y, epochs=epochs, batch_size=batch_size, validation_split=0.25, verbose=0
    ).history
    num_examples = len(x) * 3 // 4
    assert_identity(history, num_examples)
    assert_identity(history, num_examples, "val_")
    return model, history


def unet():
    x = keras.Input((8, 8, 1))
    wide = WeightNormConv2D(6, 3, padding="same", activation="relu")(x)
    low = keras.layers.MaxPooling2D()(wide)
    low = WeightNormConv2D(8, 3, padding="same", activation="relu")(low)
    up = WeightNormConv2DTranspose(6, 2, strides=2, activation="relu")(low)
    both = keras.layers.Concatenate()([wide, up])
    return keras.Model(x, WeightNormConv2D(2, 1)(both))


@pytest.mark.slow
def test_a_unet_segments():
    random = np.random.default_rng(0)
    x = random.normal(size=(64, 8, 8, 1)).astype("float32")
    bright = x[..., 0] > 0.5
    likelihood = likelihoods.Categorical(reduction="mean")
    model, history = fitted(unet(), likelihood, x, bright.astype("int32"), 40, 16)
    assert history["nll"][-1] < 0.5 * history["nll"][0]
    answers = model.predict_uncertainty(x, num_samples=4, verbose=0)
    assert answers["mean"].shape == (64, 8, 8, 2)
    assert answers["mutual_information"].shape == (64, 8, 8)
    assert np.mean(answers["mean"].argmax(axis=-1) == bright) > 0.9


def test_a_one_dimensional_convolution_predicts_mean_and_noise():
    """The noise of half of the rows is ten times that of the others."""
    random = np.random.default_rng(0)
    num_rows = 2048
    x = random.normal(size=(num_rows, 6, 1)).astype("float32")
    is_noisy = x[:, 0, 0] > 0
    signal = x[:, 1:4, 0].sum(axis=1)
    noise = np.where(is_noisy, 1.0, 0.1) * random.normal(size=num_rows)
    y = (signal + noise)[:, None].astype("float32")
    primary = keras.Sequential(
        [
            keras.Input((6, 1)),
            WeightNormConv1D(8, 3, activation="relu"),
            keras.layers.Flatten(),
            WeightNormDense(2),
        ]
    )
    likelihood = likelihoods.Gaussian(heteroscedastic=True)
    model, history = fitted(primary, likelihood, x, y, 15, 64)
    assert history["nll"][-1] < history["nll"][0] - 0.5
    answers = model.predict_uncertainty(x, num_samples=8, verbose=0)
    assert answers["mean"].shape == answers["std"].shape == (num_rows, 1)
    # Over eight seeds 0.998 at least, and 0.988 of the pairs of a noisy row and a
    # quiet one.
    assert np.corrcoef(answers["mean"][:, 0], signal)[0, 1] > 0.95
    aleatoric = answers["aleatoric_std"][:, 0]
    is_above = aleatoric[is_noisy][:, None] > aleatoric[~is_noisy]
    assert is_above.mean() > 0.9
    # An interval's coverage of each half depends on the fit, and is tested with a right
    # model in test_prediction_edges.py. Here, noisy rows have the wider intervals.
    lower, upper = model.predict_interval(x, level=0.9, num_samples=8, verbose=0)
    assert lower.shape == upper.shape == (num_rows, 1)
    width = (upper - lower)[:, 0]
    assert (width[is_noisy][:, None] > width[~is_noisy]).mean() > 0.9


MODELS = {
    "bayesian": networks.bayesian,
    "deterministic": lambda: Deterministic(networks.plain()),
    "ensemble": lambda: DeepEnsemble([networks.plain(), networks.plain()]),
}


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_a_model_in_time_distributed(make):
    model = make()
    inputs = keras.Input((5, networks.NUM_FEATURES))
    outer = keras.Model(inputs, keras.layers.TimeDistributed(model)(inputs))
    assert outer.output_shape == (None, 5, networks.NUM_CLASSES)
    steps = outer(np.ones((2, 5, networks.NUM_FEATURES), "float32"))
    assert steps.shape == (2, 5, networks.NUM_CLASSES)


def test_shapes_of_outputs_are_told_in_their_structure():
    inputs = keras.Input((networks.NUM_FEATURES,))
    outputs = {"a": WeightNormDense(3)(inputs), "b": WeightNormDense(2)(inputs)}
    likelihood = {"a": "categorical", "b": "gaussian"}
    model = bhn_tf.BayesianHypernet(
        keras.Model(inputs, outputs), "mean_field", likelihood
    )
    shapes = model.compute_output_shape((7, networks.NUM_FEATURES))
    assert shapes == {"a": (7, 3), "b": (7, 2)}
    # `scales` are given beside inputs, which have a shape too.
    scales = keras.KerasTensor((model.num_random,))
    spec = model.compute_output_spec(keras.KerasTensor((7, 4)), scales=scales)
    assert spec["a"].shape == (7, 3)
