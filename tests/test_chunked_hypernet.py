"""A hypernet that shares conditioners over chunks: chunks, dependence, size, models."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

import bhn_tf
from bhn_tf.flows import Leading, chunk_sizes, orders_within
from bhn_tf.flows.chunks import DrivenAutoregressive, DrivenCoupling
from bhn_tf.hypernets import IAF, Chunked, RealNVP
from tests import networks
from tests.flows.weights import randomize

PLAIN = {"realnvp": RealNVP, "iaf": IAF}
every_flow = pytest.mark.parametrize("flow", PLAIN)


def small(flow, chunk_size=3, **kwargs):
    return Chunked(
        flow, chunk_size, **{"num_layers": 2, "hidden_units": (8,), **kwargs}
    )


# -- chunks ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parts", "chunk_size", "expected"),
    [
        ([3, 3, 9, 2], 6, [6, 5, 6]),
        ([7], 3, [3, 2, 2]),
        ([6], 3, [3, 3]),
        ([2], 3, [2]),
        ([2, 2, 2], 3, [2, 2, 2]),
        ([0, 2, 0, 1], 3, [3]),
        ([1, 1, 1], 1, [1, 1, 1]),
    ],
)
def test_chunks_end_where_layers_do(parts, chunk_size, expected):
    assert chunk_sizes(parts, chunk_size) == expected


def test_no_layer_is_split_that_fits_into_a_chunk():
    random = np.random.default_rng(0)
    for _ in range(50):
        parts = random.integers(0, 40, size=8)
        ends = set(np.cumsum(chunk_sizes(parts.tolist(), 16)).tolist())
        starts = np.cumsum(parts) - parts
        for start, size in zip(starts.tolist(), parts.tolist(), strict=True):
            inside = [end for end in ends if start < end < start + size]
            assert len(inside) <= (0 if size <= 16 else size // 8)


@pytest.mark.parametrize("width", [1, 2, 5, 8])
def test_each_order_takes_every_entry_once(width):
    orders = orders_within(width, 4, width // 2, seed=0)
    assert len(orders) == 4
    for order in orders:
        assert sorted(order) == list(range(width))
    assert orders_within(width, 0, width // 2, seed=0) == []


@every_flow
def test_a_single_chunk_is_the_plain_flow(flow):
    hypernet, plain = small(flow, 5), PLAIN[flow](2, (8,))
    for each in (hypernet, plain):
        each.build((None, 5))
        randomize(each, 0.3)
    plain.set_weights(hypernet.get_weights())
    noise = tf.random.stateless_normal([3, 5], [1, 2])
    for result, expected in zip(
        hypernet.transform(noise), plain.transform(noise), strict=True
    ):
        np.testing.assert_array_equal(result, expected)


@pytest.mark.few(1)
@every_flow
@pytest.mark.parametrize(
    "sizes", [[3, 2, 3, 1], pytest.param([1, 3], marks=pytest.mark.slow)]
)
def test_a_chunk_depends_on_itself_and_on_the_first(flow, sizes):
    """Short chunks are padded with values that have neither noise nor density."""
    hypernet = small(flow, 3, layer_sizes=sizes, num_layers=3)
    assert chunk_sizes(sizes, 3) == sizes
    hypernet.build((None, sum(sizes)))
    randomize(hypernet, 0.5)
    noise = tf.random.stateless_normal([32, sum(sizes)], [1, 2])
    with tf.GradientTape() as tape:
        tape.watch(noise)
        values, log_prob = hypernet.transform(noise)
    jacobian = tape.batch_jacobian(values, noise).numpy().astype("float64")
    chunks = np.repeat(np.arange(len(sizes)), sizes)
    may_depend = (chunks[:, None] == chunks) | (chunks == 0)
    np.testing.assert_array_equal(jacobian[:, ~may_depend], 0.0)
    from_first = jacobian[:, chunks > 0][:, :, chunks == 0]
    assert np.abs(from_first).max(axis=0).min() > 1e-4
    normal = tfp.distributions.Normal(0.0, 1.0)
    expected = tf.reduce_sum(normal.log_prob(noise), axis=1)
    expected -= np.linalg.slogdet(jacobian).logabsdet
    np.testing.assert_allclose(log_prob, expected, rtol=1e-4, atol=1e-3)


STEPS = {
    "leading": lambda sizes: Leading(RealNVP.layer_class((8,)), sizes[0]),
    "coupling": lambda sizes: DrivenCoupling(
        sizes, orders_within(max(sizes[1:]), 2, 1, 0)[1], 2, hidden_units=(8,)
    ),
    "coupling_linear": lambda sizes: DrivenCoupling(
        sizes, orders_within(max(sizes[1:]), 2, 1, 0)[1], 2, hidden_units=()
    ),
    "autoregressive": lambda sizes: DrivenAutoregressive(
        sizes, orders_within(max(sizes[1:]), 2, 0, 0)[1], 2, hidden_units=(8, 6)
    ),
}


def test_gates_begin_with_a_spread_of_one():
    step = DrivenCoupling([2, 3, 1], [0, 1, 2], 20, hidden_units=(50,))
    step.build((None, 6))
    assert np.std(step.gate) == pytest.approx(1.0, abs=0.1)


@pytest.mark.few(4)
@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("sizes", [[2, 3, 1], [3, 1], [3, 2, 2, 2]])
def test_bijector_of_a_step_is_the_same_map(name, sizes):
    step = STEPS[name](sizes)
    step.build((None, sum(sizes)))
    randomize(step, 0.3)
    x = tf.random.stateless_normal([5, sum(sizes)], [1, 2]).numpy()
    values, log_det = (result.numpy() for result in step(x))
    # NumPy copies and fresh bijectors, since TFP would answer from its cache.
    np.testing.assert_allclose(step.bijector.forward(x), values, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(step.bijector.inverse(values), x, rtol=1e-4, atol=1e-4)
    there = step.bijector.forward_log_det_jacobian(x, event_ndims=1)
    back = step.bijector.inverse_log_det_jacobian(values, event_ndims=1)
    np.testing.assert_allclose(there, log_det, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(back, -log_det, rtol=1e-4, atol=1e-4)


# -- what it is for ----------------------------------------------------------------


@every_flow
def test_size_and_start_for_a_residual_network_of_fifty_layers(flow):
    layer_sizes = [64, 64, 64, 256, 256, 2048, 512] * 8 + [448]
    hypernet = Chunked(flow, layer_sizes=layer_sizes, initial_mean=1.0)
    event_size = sum(layer_sizes)
    assert event_size >= 26_560
    hypernet.build((None, event_size))
    assert hypernet.count_params() < 0.05 * 25_600_000
    np.testing.assert_array_equal(hypernet.center(), np.ones(event_size, "float32"))
    values, _ = hypernet.sample_and_log_prob(4, seed=1)
    assert np.std(values) == pytest.approx(0.1, rel=0.05)


def common_factor(size):
    """N(0, I + 3 a aᵀ), and the KL that the best independent Gaussians have to it."""
    loadings = np.where(np.arange(size) % 3, 1.0, -1.0)
    covariance = np.eye(size) + 3.0 * np.outer(loadings, loadings)
    target = tfp.distributions.MultivariateNormalTriL(
        tf.zeros(size), tf.constant(np.linalg.cholesky(covariance), tf.float32)
    )
    log_precisions = np.log(np.diag(np.linalg.inv(covariance)))
    kl = 0.5 * (log_precisions.sum() + np.linalg.slogdet(covariance)[1])
    return target, kl


@pytest.mark.slow
@pytest.mark.parametrize(
    "flow", ["realnvp", pytest.param("iaf", marks=pytest.mark.slow)]
)
def test_it_comes_closer_to_dependent_chunks_than_a_mean_field(flow):
    target, kl_of_mean_field = common_factor(24)
    keras.utils.set_random_seed(0)
    hypernet = small(flow, 8, num_layers=3, hidden_units=(32,), initial_stddev=1.0)
    hypernet.build((None, 24))
    optimizer = keras.optimizers.Adam(1e-2)
    optimizer.build(hypernet.trainable_variables)

    def kl(num_samples, seed=None):
        values, log_prob = hypernet.sample_and_log_prob(num_samples, seed)
        return tf.reduce_mean(log_prob - target.log_prob(values))

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            loss = kl(100)
        gradients = tape.gradient(loss, hypernet.trainable_variables)
        optimizer.apply(gradients, hypernet.trainable_variables)

    for _ in range(150):
        step()
    # What the dependence within the first chunk alone would save is far less.
    assert kl(4000, seed=1) < 0.5 * kl_of_mean_field
    draws = hypernet.sample_and_log_prob(4000, seed=2)[0].numpy()
    between = np.corrcoef(draws.T)[8:16, 16:]
    assert np.abs(between).mean() > 0.3


# -- inside a model ----------------------------------------------------------------


@pytest.mark.slow
def test_chunks_are_those_of_the_layers_also_after_loading(tmp_path):
    model = networks.bayesian(hypernet=small("realnvp", 8))
    sizes = [layer.num_random for layer in model.posterior.layers]
    assert len(sizes) > 1 and model.hypernet.layer_sizes == sizes
    config = json.loads(json.dumps(model.hypernet.get_config()))
    assert Chunked.from_config(config).layer_sizes == sizes
    x, y = networks.data(10)
    model.compile("adam", jit_compile=False)
    model.fit(x, y, verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert loaded.hypernet.get_config() == model.hypernet.get_config()
    np.testing.assert_array_equal(
        loaded.predict(x, verbose=0, num_samples=3, seed=1),
        model.predict(x, verbose=0, num_samples=3, seed=1),
    )
    path = model.export(tmp_path / "served", num_samples=3)
    served = tf.saved_model.load(path).signatures["serving_default"]
    assert np.isfinite(served(inputs=tf.constant(x))["mean"]).all()


def test_without_generated_values_nothing_is_made():
    primary = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    model = bhn_tf.BayesianHypernet(primary, "chunked")
    assert model.num_random == 0 and not model.hypernet.weights


# -- errors that teach -------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"flow": "glow"}, r"`flow` to be one of \['iaf', 'realnvp'\], got 'glow'"),
        ({"chunk_size": 0}, "`chunk_size` to be an integer of at least 1"),
        ({"embedding_size": 0}, "`embedding_size` to be an integer of at least 1"),
    ],
)
def test_arguments_have_to_make_sense(arguments, message):
    with pytest.raises(ValueError, match=message):
        Chunked(**arguments)


def test_sizes_of_another_network_are_refused():
    with pytest.raises(
        ValueError, match="those of 5 values.* D = 4.*`layer_sizes=None`"
    ):
        Chunked(layer_sizes=[2, 3]).build((None, 4))
