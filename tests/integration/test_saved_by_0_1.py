"""Files of version 0.1 load, answer the same and go on where they stood."""

from pathlib import Path

import keras
import numpy as np
import pytest

import bhn_tf  # noqa: F401  What is in a file is known by its name.

FOLDER = Path(__file__).parent / "saved_by_0_1"

# Keras 3.11 loads nothing that a later Keras saved, not even its own `Dense`.
pytestmark = pytest.mark.skipif(
    "quantization_config" not in keras.layers.Dense(1).get_config(),
    reason="The files were saved by a later Keras than this one.",
)


@pytest.fixture(scope="module")
def answers():
    return np.load(FOLDER / "answers.npz")


def load(name):
    return keras.saving.load_model(FOLDER / f"{name}.keras")


ASKED = {"num_samples": 4, "seed": 1, "verbose": 0}


def test_a_classifier_goes_on(answers):
    model = load("classifier")
    x, y = answers["x"], answers["y"]
    np.testing.assert_allclose(
        model.predict(x, **ASKED), answers["classifier"], atol=1e-6
    )
    scales = model.sample_scales(4, 1)
    np.testing.assert_allclose(scales, answers["classifier_scales"], atol=1e-6)
    assert model.num_examples == 40 and model.kl_weight == 0.25
    logs = model.evaluate(x, y, verbose=0, seed=2, return_dict=True)
    names = ("loss", "nll", "kl", "predictive_nll", "accuracy")
    np.testing.assert_allclose(
        [logs[name] for name in names], answers["classifier_evaluate"], rtol=1e-5
    )
    logs = model.train_on_batch(x[:16], y[:16], return_dict=True)
    np.testing.assert_allclose(
        [logs["loss"], logs["kl"]], answers["classifier_next_step"], rtol=1e-5
    )


def test_a_regression_keeps_its_noise(answers):
    found = load("regression").predict_uncertainty(answers["x"], **ASKED)
    np.testing.assert_allclose(
        np.stack(list(found.values())), answers["regression"], atol=1e-6
    )


@pytest.mark.parametrize("name", ["dropout", "ensemble", "deterministic"])
def test_baselines_answer_the_same(answers, name):
    found = load(name).predict(answers["x"], **ASKED)
    np.testing.assert_allclose(found, answers[name], atol=1e-6)


def test_several_outputs_keep_their_weights(answers):
    model = load("two_outputs")
    kind, size = model.predict(answers["x"], **ASKED)
    np.testing.assert_allclose(kind, answers["two_outputs_kind"], atol=1e-6)
    np.testing.assert_allclose(size, answers["two_outputs_size"], atol=1e-6)
    assert model.objective.loss_weights == [2.0, 0.5]


def test_values_in_another_order_are_refused():
    with pytest.raises(ValueError, match="reverse"):
        load("nested")
