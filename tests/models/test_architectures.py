"""Networks that are no stack of layers to one output: they train, and logs add up."""

import keras
import numpy as np

import bhn_tf
from bhn_tf import likelihoods
from bhn_tf.layers import (
    WeightNormConv1D,
    WeightNormConv2D,
    WeightNormConv2DTranspose,
    WeightNormDense,
)
from tests.networks import assert_identity, realnvp


def fitted(primary, likelihood, x, y, epochs):
    model = bhn_tf.BayesianHypernet(primary, realnvp(), likelihood)
    model.compile(keras.optimizers.Adam(1e-2))
    history = model.fit(
        x, y, epochs=epochs, batch_size=16, validation_split=0.25, verbose=0
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


def test_a_unet_segments():
    random = np.random.default_rng(0)
    x = random.normal(size=(64, 8, 8, 1)).astype("float32")
    bright = x[..., 0] > 0.5
    likelihood = likelihoods.Categorical(reduction="mean")
    model, history = fitted(unet(), likelihood, x, bright.astype("int32"), 40)
    assert history["nll"][-1] < 0.5 * history["nll"][0]
    answers = model.predict_uncertainty(x, num_samples=4, verbose=0)
    assert answers["mean"].shape == (64, 8, 8, 2)
    assert answers["mutual_information"].shape == (64, 8, 8)
    assert np.mean(answers["mean"].argmax(axis=-1) == bright) > 0.9


def test_a_one_dimensional_convolution_predicts_mean_and_noise():
    """The noise of half of the rows is ten times that of the others."""
    random = np.random.default_rng(0)
    x = random.normal(size=(512, 12, 1)).astype("float32")
    is_noisy = x[:, 0, 0] > 0
    noise = np.where(is_noisy, 1.0, 0.1) * random.normal(size=512)
    y = (x[:, 1:4, 0].sum(axis=1) + noise)[:, None].astype("float32")
    primary = keras.Sequential(
        [
            keras.Input((12, 1)),
            WeightNormConv1D(12, 4, activation="relu"),
            keras.layers.Flatten(),
            WeightNormDense(24, activation="relu"),
            WeightNormDense(2),
        ]
    )
    likelihood = likelihoods.Gaussian(heteroscedastic=True)
    model, history = fitted(primary, likelihood, x, y, 80)
    assert history["nll"][-1] < history["nll"][0] - 0.5
    answers = model.predict_uncertainty(x, num_samples=8, verbose=0)
    assert answers["mean"].shape == answers["std"].shape == (512, 1)
    aleatoric = answers["aleatoric_std"][:, 0]
    assert aleatoric[is_noisy].mean() > 2 * aleatoric[~is_noisy].mean()
    lower, upper = model.predict_interval(x, level=0.9, num_samples=8, verbose=0)
    assert 0.8 < np.mean((lower <= y) & (y <= upper)) <= 1.0
