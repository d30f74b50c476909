"""One body of tests over every step of a flow."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from bhn_tf.flows import (
    Coupling,
    CouplingConditioner,
    ElementwiseAffine,
    InverseAutoregressive,
    Permutation,
)
from tests.flows.weights import randomize

STEPS = {
    "coupling": lambda size: Coupling((8,)),
    "coupling_deep": lambda size: Coupling((8, 6), max_log_scale=0.5),
    "coupling_linear": lambda size: Coupling(()),
    "coupling_plain": lambda size: Coupling((8,), weight_norm=False),
    "autoregressive": lambda size: InverseAutoregressive((8,)),
    "autoregressive_deep": lambda size: InverseAutoregressive((8, 6), 0.5),
    "autoregressive_linear": lambda size: InverseAutoregressive(()),
    "autoregressive_plain": lambda size: InverseAutoregressive((8,), weight_norm=False),
    "permutation": lambda size: Permutation(np.roll(np.arange(size), 1)),
    "affine": lambda size: ElementwiseAffine(0.5, 0.1),
}


@pytest.fixture(params=[2, 3, 7])
def size(request):
    return request.param


@pytest.fixture(params=STEPS)
def step(request, size):
    step = STEPS[request.param](size)
    step.build((None, size))
    randomize(step, 0.3)
    return step


def noise(*shape):
    return tf.random.stateless_normal(shape, [5, 6])


@pytest.mark.few(8)
@pytest.mark.parametrize("leading", [(), (4,), (2, 3)])
def test_shapes_and_dtypes(step, size, leading):
    values, log_det = step(noise(*leading, size))
    assert values.shape == (*leading, size)
    assert log_det.shape == leading
    assert values.dtype == log_det.dtype == tf.float32


@pytest.mark.few(3)
def test_log_det_is_that_of_the_jacobian(step, size):
    x = noise(5, size)
    with tf.GradientTape() as tape:
        tape.watch(x)
        values, log_det = step(x)
    jacobian = tape.batch_jacobian(values, x).numpy().astype("float64")
    expected = np.linalg.slogdet(jacobian).logabsdet
    np.testing.assert_allclose(log_det, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.few(8)
def test_bijector_is_the_same_map(step, size):
    x = noise(5, size).numpy()
    values, log_det = (result.numpy() for result in step(x))
    # NumPy copies and fresh bijectors, since TFP would answer from its cache.
    np.testing.assert_allclose(step.bijector.forward(x), values, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(step.bijector.inverse(values), x, rtol=1e-4, atol=1e-4)
    log_det_there = step.bijector.forward_log_det_jacobian(x, event_ndims=1)
    log_det_back = step.bijector.inverse_log_det_jacobian(values, event_ndims=1)
    np.testing.assert_allclose(log_det_there, log_det, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(log_det_back, -log_det, rtol=1e-4, atol=1e-4)


@pytest.mark.few(8)
def test_a_step_in_a_keras_model_survives_a_file(step, size, tmp_path):
    inputs = keras.Input((size,))
    model = keras.Model(inputs, step(inputs))
    model.save(tmp_path / "step.keras")
    loaded = keras.saving.load_model(tmp_path / "step.keras")
    x = noise(5, size)
    for found, expected in zip(loaded(x), model(x), strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.slow
def test_inverse_of_64_entries():
    x = noise(5, 64).numpy()
    for name, make in STEPS.items():
        step = make(64)
        step.build((None, 64))
        randomize(step, 0.1)
        values = step(x)[0].numpy()
        error = np.abs(step.bijector.inverse(values) - x).max()
        assert error < 1e-4, name


@pytest.mark.few(8)
def test_gradient_reaches_each_weight(step, size):
    with tf.GradientTape() as tape:
        values, log_det = step(noise(16, size))
        loss = tf.reduce_mean(tf.square(values)) + tf.reduce_mean(tf.square(log_det))
    weights = step.trainable_variables
    assert len(weights) == len(step.weights)
    for weight, gradient in zip(weights, tape.gradient(loss, weights), strict=True):
        assert gradient is not None, weight.path
        assert np.abs(gradient).max() > 0, weight.path


def test_coupling_passes_the_first_half_through():
    step = Coupling((8,))
    step.build((None, 5))
    randomize(step, 0.3)
    x = noise(4, 5)
    values = step(x)[0]
    np.testing.assert_array_equal(values[:, :2], x[:, :2])
    assert (np.abs(values - x)[:, 2:] > 1e-4).all()


def test_autoregressive_step_lets_an_entry_depend_on_those_before_it():
    step = InverseAutoregressive((16,))
    step.build((None, 5))
    randomize(step, 0.3)
    x = noise(16, 5)
    with tf.GradientTape() as tape:
        tape.watch(x)
        values = step(x)[0]
    jacobian = np.abs(tape.batch_jacobian(values, x)).max(axis=0)
    np.testing.assert_array_equal(np.triu(jacobian, 1), 0.0)
    assert jacobian[np.tril_indices(5)].min() > 0


def test_affine_starts_at_its_arguments():
    step = ElementwiseAffine(np.array([1.0, -2.0]), 0.1)
    step.build((None, 2))
    values, log_det = step(tf.constant([[0.0, 0.0], [1.0, -1.0]]))
    np.testing.assert_allclose(values, [[1.0, -2.0], [1.1, -2.1]], rtol=1e-6)
    np.testing.assert_allclose(log_det, 2 * np.log(0.1), rtol=1e-6)


@pytest.mark.parametrize("given", [[0, 0, 1], [1, 2, 3], [0.5, 1.0, 2.0], [[0, 1]], 3])
def test_what_is_no_permutation_is_refused(given):
    """Entries that are taken twice, or not at all, have no density."""
    with pytest.raises(ValueError, match="each of 0, 1, ..., D - 1 once"):
        Permutation(given)


def test_a_subclass_may_make_a_conditioner_of_its_own():
    """It finds the arguments as attributes of their names."""

    class Narrow(Coupling):
        def build(self, input_shape):
            super().build(input_shape)
            self.conditioner = CouplingConditioner(
                1, self.hidden_units, self.max_log_scale, self.max_shift
            )

    step = Narrow((4,), max_log_scale=0.25, max_shift=None)
    step.build((None, 2))
    assert step.conditioner.max_log_scale == 0.25
    assert step.conditioner.max_shift is None


def test_a_permutation_takes_inputs_of_a_size_not_yet_known():
    inputs = keras.Input((None,))
    model = keras.Model(inputs, Permutation([1, 0])(inputs))
    np.testing.assert_array_equal(model(np.array([[3.0, 4.0]]))[0], [[4.0, 3.0]])
