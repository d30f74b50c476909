"""Half and double precision, from the first step to the loaded file."""

import keras
import numpy as np
import pytest

import bhn_tf
from tests import networks


@pytest.fixture
def policy(request):
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(request.param)
    yield request.param
    keras.config.set_dtype_policy(before)


def sgd_step(policy_name):
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(policy_name)
    try:
        keras.utils.set_random_seed(3)
        model = bhn_tf.BayesianHypernet(networks.plain())
        start = networks.weights_of(model.primary)
        model.compile(keras.optimizers.SGD(0.1), jit_compile=False)
        logs = model.fit(*networks.data(16), verbose=0).history
        return start, networks.weights_of(model.primary), logs
    finally:
        keras.config.set_dtype_policy(before)


def test_a_step_of_mixed_float16_is_one_of_float32():
    start, expected, expected_logs = sgd_step("float32")
    same_start, values, logs = sgd_step("mixed_float16")
    for old, same, value, wanted in zip(
        start, same_start, values, expected, strict=True
    ):
        np.testing.assert_array_equal(same, old)
        step, wanted_step = value - old, wanted - old
        error = np.linalg.norm(step - wanted_step) / np.linalg.norm(wanted_step)
        assert error < 1e-2
    # The loss does not contain the scale of the gradients.
    np.testing.assert_allclose(logs["loss"], expected_logs["loss"], rtol=1e-2)


POLICIES = ["float64", "float16", "mixed_float16", "mixed_bfloat16", "bfloat16"]


@pytest.mark.few(2)
@pytest.mark.parametrize("policy", POLICIES, indirect=True)
@pytest.mark.parametrize(
    "hypernet", ["RealNVP", pytest.param("IAF", marks=pytest.mark.slow)]
)
def test_trains_predicts_and_is_saved(policy, hypernet, tmp_path):
    x, y = networks.data(12)
    hypernet = getattr(bhn_tf.hypernets, hypernet)(num_layers=2, hidden_units=(8,))
    model = networks.bayesian(hypernet=hypernet)
    model.compile("adam", metrics=["accuracy"], train_samples=2, run_eagerly=True)
    logs = model.fit(x, y, batch_size=4, validation_split=0.3, verbose=0).history
    assert np.isfinite(list(logs.values())).all()
    assert int(model.optimizer.iterations) == 2
    for call in ("predict", "predict_samples"):
        answer = getattr(model, call)(x, num_samples=3, verbose=0)
        assert answer.dtype == ("float64" if policy == "float64" else "float32")
        np.testing.assert_allclose(answer.sum(axis=-1), 1, atol=1e-3)
    for value in model.predict_uncertainty(x, num_samples=3, verbose=0).values():
        assert np.isfinite(value).all() and value.dtype in ("float32", "float64")
    assert keras.backend.standardize_dtype(model(x).dtype) == model.compute_dtype
    # Densities keep their precision, whatever the network computes in.
    assert {variable.dtype for variable in model.hypernet.weights} == {"float32"}
    assert model.sample_scales(2).dtype == "float32"
    expected = model.predict(x, num_samples=0, verbose=0)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert again.primary.dtype_policy.name == policy
    np.testing.assert_array_equal(again.predict(x, num_samples=0, verbose=0), expected)
    again.fit(x, y, batch_size=4, verbose=0)


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["float64", "float16"], indirect=True)
@pytest.mark.parametrize("jit_compile", [False, True])
def test_in_graphs(policy, jit_compile):
    """Graphs and XLA tolerate constants of other precisions less than Python does."""
    x, y = networks.data(12)
    model = networks.bayesian(hypernet="mean_field")
    model.compile("adam", jit_compile=jit_compile)
    logs = model.fit(x, y, batch_size=12, validation_data=(x, y), verbose=0).history
    assert np.isfinite(list(logs.values())).all()
    for value in model.predict_uncertainty(x, num_samples=3, verbose=0).values():
        assert np.isfinite(value).all()


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["mixed_float16"], indirect=True)
def test_separable_blobs_are_learned_in_half_precision(policy):
    x, y = networks.data(64)
    model = networks.bayesian(hypernet="mean_field")
    networks.compiled(model, keras.optimizers.Adam(0.05), kl_weight=0.0)
    history = model.fit(x, y, batch_size=64, epochs=40, verbose=0).history
    assert history["loss"][-1] < 0.3 * history["loss"][0]


@pytest.mark.parametrize("policy", ["float64", "mixed_float16"], indirect=True)
def test_baselines(policy):
    x, y = networks.data(8)
    model = bhn_tf.baselines.Deterministic(networks.plain())
    networks.compiled(model)
    logs = model.fit(x, y, validation_split=0.5, verbose=0).history
    assert np.isfinite(list(logs.values())).all()
    expected = "float64" if policy == "float64" else "float32"
    assert model.predict(x, verbose=0).dtype == expected


POLICIES = ["float64", "float16", "bfloat16", "mixed_float16", "mixed_bfloat16"]


@pytest.mark.parametrize("policy", POLICIES, indirect=True)
def test_scales_are_set_to_data(policy):
    model = networks.bayesian(hypernet="mean_field")
    x, y = networks.data(24)
    assert model.initialize_from_data(x, y)
    for values in networks.weights_of(model):
        assert np.isfinite(values).all()


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["float64", "mixed_float16"], indirect=True)
def test_attacks_and_chains(policy):
    model = networks.bayesian(hypernet="mean_field", num_examples=24)
    x, y = networks.data(24)
    stepped = bhn_tf.attacks.fgsm(model, x, y, 0.1, num_samples=2, clip=None, seed=1)
    # A row for which all units are inactive has no gradient.
    moved = np.abs(stepped - x).max(axis=1) > 0
    np.testing.assert_allclose(np.abs(stepped - x)[moved], 0.1, rtol=1e-2)
    assert moved.mean() > 0.5
    found = bhn_tf.hamiltonian.hamiltonian_monte_carlo(
        *(model, x, y),
        num_samples=8,
        num_burnin_steps=2,
        num_chains=2,
        seed=1,
        jit_compile=False,
    )
    assert np.isfinite(found.draws).all()
