"""Densities, draws and weights of the hypernets."""

import copy
import functools
import itertools
import json
import warnings

import h5py
import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow_probability import bijectors as tfb

import bhn_tf
from bhn_tf import flows, hypernets
from bhn_tf.hypernets import IAF, Chunked, MeanField, RealNVP
from bhn_tf.layers import WeightNormDense
from tests.flows.weights import randomize


def chunked(flow, num_layers=3, hidden_units=(8,), **kwargs):
    """Chunks so small that few values make several, of two sizes."""
    kwargs = {"chunk_size": 3, "embedding_size": 2, **kwargs}
    return Chunked(flow, num_layers=num_layers, hidden_units=hidden_units, **kwargs)


MAKE = {
    "mean_field": lambda **kwargs: MeanField(**kwargs),
    "realnvp": lambda **kwargs: RealNVP(3, (8,), **kwargs),
    "iaf": lambda **kwargs: IAF(3, (8,), **kwargs),
    "chunked_realnvp": functools.partial(chunked, "realnvp"),
    "chunked_iaf": functools.partial(chunked, "iaf"),
}
FLOWS = {
    "realnvp": RealNVP,
    "iaf": IAF,
    "chunked_realnvp": functools.partial(chunked, "realnvp"),
    "chunked_iaf": functools.partial(chunked, "iaf"),
}
every_hypernet = pytest.mark.parametrize("name", MAKE)
every_flow = pytest.mark.parametrize("name", FLOWS)


def built(hypernet, size, stddev=0.0):
    hypernet.build((None, size))
    randomize(hypernet, stddev)
    return hypernet


def log_normal(values, loc=0.0, scale=1.0):
    """The log-density of independent normals, by hand, summed over the last axis."""
    values = (np.asarray(values, "float64") - loc) / scale
    return np.sum(-0.5 * values**2 - np.log(scale) - 0.5 * np.log(2 * np.pi), axis=-1)


# -- the density -------------------------------------------------------------------


@pytest.mark.few(2)
@every_hypernet
@pytest.mark.parametrize("size", [1, 2, 3, 5, 64])
def test_density_of_a_draw_is_that_of_the_distribution(name, size):
    hypernet = built(MAKE[name](), size, 0.3)
    values, log_prob = hypernet.sample_and_log_prob(6, seed=1)
    assert values.shape == (6, size) and log_prob.shape == (6,)
    assert values.dtype == log_prob.dtype == tf.float32
    # A NumPy copy, since TFP would take the noise from its cache.
    expected = hypernet.distribution.log_prob(values.numpy())
    np.testing.assert_allclose(log_prob, expected, rtol=1e-4, atol=1e-3)


@pytest.mark.few(2)
@every_hypernet
@pytest.mark.parametrize("size", [2, 3, 7])
def test_density_follows_from_the_change_of_variables(name, size):
    hypernet = built(MAKE[name](), size, 0.3)
    noise = tf.random.stateless_normal([5, size], [3, 4])
    with tf.GradientTape() as tape:
        tape.watch(noise)
        values, log_prob = hypernet.transform(noise)
    jacobian = tape.batch_jacobian(values, noise).numpy().astype("float64")
    expected = log_normal(noise) - np.linalg.slogdet(jacobian).logabsdet
    np.testing.assert_allclose(log_prob, expected, rtol=1e-5, atol=1e-4)


@pytest.mark.few(1)
@pytest.mark.parametrize("make", [lambda: RealNVP(2, (16,)), lambda: IAF(2, (16,))])
def test_1024_values(make):
    hypernet = built(make(), 1024, 0.05)
    values, log_prob = hypernet.sample_and_log_prob(2, seed=1)
    log_prob_of = tf.function(lambda values: hypernet.distribution.log_prob(values))
    assert np.isfinite(values).all()
    np.testing.assert_allclose(log_prob, log_prob_of(values.numpy()), rtol=1e-5)


@pytest.mark.few(2)
@every_hypernet
@pytest.mark.parametrize("leading", [(), (1,), (5,), (2, 3)])
def test_density_is_one_number_for_each_draw(name, leading):
    hypernet = built(MAKE[name](), 4, 0.3)
    distribution = hypernet.distribution
    assert distribution.event_shape == (4,) and distribution.batch_shape == ()
    values, log_prob = hypernet.transform(
        tf.random.stateless_normal([*leading, 4], [1, 2])
    )
    assert values.shape == (*leading, 4)
    assert log_prob.shape == distribution.log_prob(values.numpy()).shape == leading


@pytest.mark.few(2)
@every_hypernet
def test_a_distribution_that_is_kept_follows_the_weights(name):
    """All of them: it took μ and σ when it was made, and the conditioners' later."""
    hypernet = built(MAKE[name](), 4, 0.3)
    kept = hypernet.distribution
    points = hypernet.sample_and_log_prob(5, seed=1)[0].numpy()
    with tf.GradientTape() as tape:
        loss = -tf.reduce_mean(kept.log_prob(points + 0.1))
    weights = hypernet.trainable_variables
    assert all(each is not None for each in tape.gradient(loss, weights))
    assert len(kept.trainable_variables) == len(weights)
    randomize(hypernet, 0.1)
    again = points + 0.2
    fresh = hypernet.distribution.log_prob(again)
    np.testing.assert_array_equal(kept.log_prob(again), fresh)


def test_density_integrates_to_one():
    hypernet = built(RealNVP(3, (8,), initial_stddev=0.5), 2, 0.3)
    axis = np.linspace(-12.0, 12.0, 601, dtype="float32")
    points = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    mass = (
        np.exp(hypernet.distribution.log_prob(points)).sum() * (axis[1] - axis[0]) ** 2
    )
    np.testing.assert_allclose(mass, 1.0, atol=1e-3)


def identity(hypernet, size):
    """A flow of the given size whose steps before the affine map do nothing."""
    hypernet.build((None, size))
    for step in hypernet.flow_steps:
        # In a chunked flow, the first chunk's steps are inside other steps.
        step = getattr(step, "step", step)
        if hasattr(step, "conditioner"):
            step.conditioner.dense_layers[-1].scale.assign(
                tf.zeros_like(step.conditioner.dense_layers[-1].scale)
            )
    return hypernet


@every_hypernet
def test_identity_flow_is_a_gaussian(name):
    hypernet = identity(MAKE[name](initial_mean=0.7, initial_stddev=0.2), 64)
    values, log_prob = hypernet.sample_and_log_prob(8, seed=1)
    np.testing.assert_allclose(log_prob, log_normal(values, 0.7, 0.2), atol=1e-3)


@every_hypernet
def test_kl_of_an_identity_flow_is_that_of_gaussians(name):
    mean, stddev, size, num_samples = 0.7, 0.2, 16, 20_000
    hypernet = identity(MAKE[name](initial_mean=mean, initial_stddev=stddev), size)
    values, log_prob = hypernet.sample_and_log_prob(num_samples, seed=1)
    differences = log_prob - log_normal(values)
    kl = size * (0.5 * (mean**2 + stddev**2 - 1) - np.log(stddev))
    standard_error = np.std(differences) / np.sqrt(num_samples)
    assert 0 < standard_error < 0.05
    assert abs(np.mean(differences) - kl) < 3 * standard_error


# -- what the flows do to the noise ------------------------------------------------


@pytest.mark.few(4)
@every_flow
@pytest.mark.parametrize("size", [2, 3, 5, 64])
def test_every_entry_is_transformed(name, size):
    hypernet = FLOWS[name](2, (8,))
    hypernet.build((None, size))
    noise = tf.random.stateless_normal([8, size], [1, 2])
    fresh = hypernet(noise)
    for step in hypernet.flow_steps:
        randomize(step, 0.3)
    # In a single row, an entry may return to its place by chance.
    assert (np.abs(hypernet(noise) - fresh).max(axis=0) > 1e-3).all()


@pytest.mark.few(5)
@every_hypernet
@pytest.mark.parametrize("mean", [0.0, 1.5, [1.0, -2.0, 0.5]])
def test_center_is_the_mean_at_the_start(name, mean):
    hypernet = built(MAKE[name](initial_mean=mean), 3)
    center = hypernet.center()
    assert center.shape == (3,)
    np.testing.assert_array_equal(center, np.broadcast_to(mean, 3).astype("float32"))
    np.testing.assert_array_equal(center, hypernet.center())


@every_hypernet
def test_draws_start_close_to_the_given_gaussian(name):
    hypernet = built(MAKE[name](initial_mean=1.0, initial_stddev=0.1), 8)
    values, _ = hypernet.sample_and_log_prob(5000, seed=1)
    np.testing.assert_allclose(np.mean(values, axis=0), 1.0, atol=0.01)
    np.testing.assert_allclose(np.std(values, axis=0), 0.1, rtol=0.1)
    correlations = np.corrcoef(values.numpy().T)[np.triu_indices(8, 1)]
    assert np.abs(correlations).max() < 0.1


@every_flow
def test_draws_are_no_linear_map_of_the_noise(name):
    hypernet = built(MAKE[name](), 4, 0.3)
    noise = tf.random.stateless_normal([8, 4], [1, 2])
    asymmetry = hypernet(noise) + hypernet(-noise) - 2 * hypernet.center()
    assert np.abs(asymmetry).max() > 1e-3


@every_flow
def test_entries_become_dependent(name):
    hypernet = built(MAKE[name](), 4, 0.3)
    num_draws = 20_000
    draws, _ = hypernet.sample_and_log_prob(num_draws, seed=1)
    correlations = np.corrcoef(draws.numpy().T)[np.triu_indices(4, 1)]
    # For independent entries, each has a standard error of 1 / √n.
    assert np.abs(correlations).max() > 8 / np.sqrt(num_draws)


# -- draws -------------------------------------------------------------------------


@pytest.mark.few(2)
@every_hypernet
def test_same_seed_same_draws(name):
    hypernet = built(MAKE[name](), 3, 0.3)
    traced = tf.function(lambda: hypernet.sample_and_log_prob(4, seed=5))
    first, _ = hypernet.sample_and_log_prob(4, seed=5)
    np.testing.assert_array_equal(first, hypernet.sample_and_log_prob(4, seed=5)[0])
    np.testing.assert_allclose(first, traced()[0], rtol=1e-5)
    assert not np.allclose(first, hypernet.sample_and_log_prob(4, seed=6)[0])
    assert len(np.unique(first)) == 12


@pytest.mark.few(3)
@every_hypernet
@pytest.mark.parametrize("decorate", [lambda f: f, tf.function])
def test_without_a_seed_every_call_differs(name, decorate):
    hypernet = built(MAKE[name](), 3)
    draw = decorate(lambda: hypernet.sample_and_log_prob(4)[0])
    assert not np.allclose(draw(), draw())


def test_number_of_draws_can_be_a_tensor():
    hypernet = built(RealNVP(2, (8,)), 3)
    draw = tf.function(lambda number: hypernet.sample_and_log_prob(number, seed=1))
    for number in (1, 7):
        values, log_prob = draw(tf.constant(number))
        assert values.shape == (number, 3) and log_prob.shape == (number,)


@pytest.mark.few(3)
@every_hypernet
def test_xla_draws_with_the_same_density(name):
    hypernet = built(MAKE[name](), 5, 0.3)
    draw = tf.function(
        lambda: hypernet.sample_and_log_prob(4, seed=1), jit_compile=True
    )
    values, log_prob = draw()
    expected = hypernet.distribution.log_prob(values.numpy())
    np.testing.assert_allclose(log_prob, expected, rtol=1e-4, atol=1e-3)


def operations_of_a_draw(make, size):
    hypernet = make()
    hypernet.build((None, size))
    draw = tf.function(lambda: hypernet.sample_and_log_prob(2, seed=1))
    return draw.get_concrete_function().graph.get_operations()


@every_flow
def test_a_draw_costs_one_pass_whatever_its_size(name):
    num_layers, units = 3, 20
    sizes = {}
    # Norms of larger matrices are summed in slices; both sizes have equally many.
    for size in (2048, 4096):
        options = {"chunk_size": 256} if name.startswith("chunked") else {}
        operations = operations_of_a_draw(
            lambda options=options: FLOWS[name](num_layers, (units,), **options), size
        )
        types = [operation.type for operation in operations]
        assert not {"While", "StatelessWhile", "PartitionedCall"} & set(types)
        # One evaluation of each conditioner: into the hidden layer and out of it, each
        # as many products as its matrix has blocks.
        num_blocks = {"realnvp": 1 + 1, "iaf": 2 + 4}[name.removeprefix("chunked_")]
        # All chunks after the first go through one conditioner at once, of which
        # the gates are one more product.
        if name.startswith("chunked"):
            num_blocks = 2 * num_blocks + 1
        assert types.count("MatMul") == num_layers * num_blocks
        sizes[size] = len(types)
    assert sizes[2048] == sizes[4096]


# -- weights -----------------------------------------------------------------------


@every_flow
def test_each_layer_has_weights_of_its_own(name):
    counts = []
    for num_layers in (0, 1, 2, 4):
        hypernet = FLOWS[name](num_layers, (8,))
        hypernet.build((None, 6))
        counts.append(hypernet.count_params())
    of_one_layer = counts[1] - counts[0]
    assert of_one_layer > 0
    assert counts == [counts[0] + count * of_one_layer for count in (0, 1, 2, 4)]
    directions = [
        w.numpy() for w in hypernet.weights if w.path.endswith("dense_0/direction")
    ]
    assert len(directions) == 8 if name.startswith("chunked") else 4
    for one, other in itertools.pairwise(directions):
        assert not np.array_equal(one, other)


@every_hypernet
def test_gradient_reaches_each_weight(name):
    hypernet = built(MAKE[name](), 5, 0.1)
    with tf.GradientTape() as tape:
        values, log_prob = hypernet.sample_and_log_prob(16, seed=1)
        loss = tf.reduce_mean(log_prob) + tf.reduce_mean(tf.square(values - 1.0))
    assert len(hypernet.trainable_variables) == len(hypernet.weights)
    gradients = tape.gradient(loss, hypernet.trainable_variables)
    for weight, gradient in zip(hypernet.trainable_variables, gradients, strict=True):
        assert gradient is not None and np.abs(gradient).max() > 0, weight.path


@every_flow
def test_one_value_leaves_nothing_to_condition_on(name):
    hypernet = built(FLOWS[name](4, (8,)), 1)
    assert hypernet.count_params() == 2
    assert hypernet.sample_and_log_prob(3, seed=1)[0].shape == (3, 1)


@pytest.fixture
def global_policy(request):
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(request.param)
    yield request.param
    keras.config.set_dtype_policy(before)


@pytest.mark.few(4)
@every_hypernet
@pytest.mark.parametrize(
    "global_policy",
    ["float32", "float64", "float16", "mixed_float16", "mixed_bfloat16"],
    indirect=True,
)
def test_float32_under_every_dtype_policy(name, global_policy):
    hypernet = built(MAKE[name](), 5, 0.3)
    assert {weight.dtype for weight in hypernet.weights} == {"float32"}
    values, log_prob = hypernet.sample_and_log_prob(4, seed=1)
    assert values.dtype == log_prob.dtype == tf.float32
    again, log_prob_again = hypernet.transform(
        tf.cast(hypernet.distribution.bijector.inverse(values.numpy()), tf.float32)
    )
    np.testing.assert_allclose(again, values, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(log_prob_again, log_prob, rtol=1e-3, atol=1e-2)


def deep_flows():
    """A flow over many chunks is no deeper than over few, so that 19 values suffice."""
    yield from (pytest.param(name, 19) for name in ("realnvp", "iaf"))
    for name, size in (
        ("chunked_realnvp", 19),
        ("chunked_iaf", 19),
        ("realnvp", 64),
        ("iaf", 64),
    ):
        yield pytest.param(name, size, marks=pytest.mark.slow)


@pytest.mark.slow
@pytest.mark.parametrize(["name", "size"], list(deep_flows()))
def test_deep_flows_stay_finite(name, size):
    keras.utils.set_random_seed(0)
    hypernet = FLOWS[name](16, (16,))
    if isinstance(hypernet, Chunked):
        hypernet = Chunked(hypernet.flow, 10, num_layers=8, hidden_units=(16,))
    hypernet.build((None, size))
    optimizer = keras.optimizers.Adam(1e-2)
    optimizer.build(hypernet.trainable_variables)

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            values, log_prob = hypernet.sample_and_log_prob(2)
            # A steep, curved target, far from where the flow starts.
            bends = values[:, 1:] - tf.square(values[:, :-1]) + 1.0
            energy = tf.reduce_sum(50.0 * tf.square(bends), axis=1)
            loss = tf.reduce_mean(log_prob + energy + tf.reduce_sum(values**2, axis=1))
        gradients = tape.gradient(loss, hypernet.trainable_variables)
        optimizer.apply(gradients, hypernet.trainable_variables)
        return loss

    losses = np.array([step() for _ in range(100)])
    assert np.isfinite(losses).all()
    assert np.mean(losses[-10:]) < 0.5 * np.mean(losses[:10])
    for weight in hypernet.weights:
        assert np.isfinite(weight.numpy()).all(), weight.path
    noise = tf.random.stateless_normal([4, size], [1, 2])
    for scale in (1.0, 1e3):
        for result in hypernet.transform(scale * noise):
            assert np.isfinite(result).all()


@pytest.mark.few(2)
@every_flow
def test_no_weights_throw_a_rare_draw_far(name):
    """Training can widen the tails only so far: no single draw decides the KL."""
    num_layers, max_log_scale, max_shift = 8, 0.5, 2.0
    hypernet = built(FLOWS[name](num_layers, (8,), initial_stddev=1.0), 16, 0.0)
    for step in hypernet.flow_steps:
        randomize(step, 100.0)
    noise = tf.random.stateless_normal([2000, 16], [1, 2])
    farthest = np.abs(noise).max()
    for _ in range(num_layers):
        farthest = (farthest + max_shift) * np.exp(max_log_scale)
    values = np.abs(hypernet(noise))
    assert 10 < values.max() <= farthest


@pytest.mark.few(2)
@every_flow
def test_flows_of_version_0_1_keep_their_maps(name):
    """Their shifts had no bound, and their files do not mention one."""
    old = built(FLOWS[name](2, (8,), max_log_scale=2.0, max_shift=None), 4, 3.0)
    config = {key: v for key, v in old.get_config().items() if key != "max_shift"}
    assert_weights_fit(old, type(old).from_config(config))


# -- configuration -----------------------------------------------------------------

CONFIGURED = {
    "mean_field": lambda: MeanField(initial_stddev=0.3, initial_mean=0.5, name="q"),
    "realnvp": lambda: RealNVP(
        num_layers=2,
        hidden_units=(7, 6),
        initial_stddev=0.3,
        initial_mean=np.array([1.0, 2.0, 3.0, 4.0]),
        max_log_scale=1.5,
        max_shift=2.5,
        weight_norm=False,
        permutation_seed=9,
        name="q",
    ),
    "iaf": lambda: IAF(
        num_layers=2,
        hidden_units=[7],
        initial_stddev=0.3,
        initial_mean=(1.0, 2.0, 3.0, 4.0),
        max_log_scale=1.5,
        max_shift=2.5,
        initial_scale=0.05,
        permutation_seed=9,
        name="q",
    ),
    **{
        f"chunked_{flow}": functools.partial(
            chunked,
            flow,
            num_layers=2,
            hidden_units=[7],
            layer_sizes=np.array([2, 1, 1]),
            initial_stddev=0.3,
            initial_mean=(1.0, 2.0, 3.0, 4.0),
            max_log_scale=1.5,
            max_shift=2.5,
            permutation_seed=9,
            name="q",
        )
        for flow in ("realnvp", "iaf")
    },
}


def assert_weights_fit(hypernet, other):
    """`other` has its own weights, and with those of `hypernet` the same draws."""
    if not other.built:
        other.build((None, 4))
    mine = {id(weight) for weight in hypernet.weights}
    assert not mine & {id(weight) for weight in other.weights}
    other.set_weights([weight.numpy() for weight in hypernet.weights])
    for expected, result in zip(
        hypernet.sample_and_log_prob(3, seed=1),
        other.sample_and_log_prob(3, seed=1),
        strict=True,
    ):
        np.testing.assert_array_equal(result, expected)


@pytest.mark.few(3)
@every_hypernet
def test_config_survives_json(name):
    hypernet = built(CONFIGURED[name](), 4, 0.3)
    config = json.loads(json.dumps(hypernet.get_config()))
    clone = type(hypernet).from_config(config)
    assert clone.get_config() == hypernet.get_config()
    assert_weights_fit(hypernet, clone)


@pytest.mark.few(3)
@every_hypernet
def test_deserializes_by_its_registered_name(name):
    hypernet = built(CONFIGURED[name](), 4, 0.3)
    clone = keras.saving.deserialize_keras_object(
        keras.saving.serialize_keras_object(hypernet)
    )
    assert type(clone) is type(hypernet)
    assert_weights_fit(hypernet, clone)


@pytest.mark.few(2)
@every_hypernet
def test_copies_after_use_share_nothing(name):
    hypernet = built(MAKE[name](), 4, 0.3)
    for seed in range(3):
        hypernet.sample_and_log_prob(2, seed=seed)
    duplicate = copy.deepcopy(hypernet)
    assert_weights_fit(hypernet, duplicate)
    before = hypernet.center().numpy()
    duplicate.affine.mean.assign(tf.ones([4]))
    np.testing.assert_array_equal(hypernet.center(), before)


@pytest.mark.few(3)
@every_hypernet
def test_weights_survive_a_file(name, tmp_path):
    inputs = keras.Input((4,))
    hypernet = CONFIGURED[name]()
    model = keras.Model(inputs, hypernet(inputs))
    randomize(hypernet, 0.3)
    model.save(tmp_path / "flow.keras")
    loaded = keras.saving.load_model(tmp_path / "flow.keras")
    noise = tf.random.stateless_normal([3, 4], [1, 2])
    np.testing.assert_array_equal(loaded(noise), model(noise))


SAVED_AND_SMALLER = {
    "realnvp": (lambda: RealNVP(4, (8,)), lambda: RealNVP(2, (8,))),
    "iaf": (lambda: IAF(4, (8,)), lambda: IAF(2, (8,))),
    "chunked": (lambda: chunked("realnvp", 3), lambda: chunked("realnvp", 2)),
    "no flow": (lambda: RealNVP(2, (8,)), MeanField),
}


@pytest.mark.few(2)
@pytest.mark.parametrize("pair", SAVED_AND_SMALLER.values(), ids=SAVED_AND_SMALLER)
def test_weights_of_a_larger_hypernet_are_refused(pair, tmp_path):
    """The steps that it lacks would be left out, silently."""
    saved, smaller = (
        bhn_tf.BayesianHypernet(
            keras.Sequential([keras.Input((3,)), WeightNormDense(7)]), make()
        )
        for make in pair
    )
    saved.save_weights(tmp_path / "m.weights.h5")
    with pytest.raises(ValueError, match=r"of another hypernet.*flow steps"):
        smaller.load_weights(tmp_path / "m.weights.h5")
    with pytest.warns(UserWarning, match="of another hypernet"):
        smaller.load_weights(tmp_path / "m.weights.h5", skip_mismatch=True)


def test_permutations_follow_the_seed():
    orders = []
    for seed in (1, 1, 2):
        hypernet = built(RealNVP(2, (8,), permutation_seed=seed), 64)
        orders.append(hypernet.flow_steps[1].permutation.tolist())
    assert orders[0] == orders[1] != orders[2]


def test_get_knows_the_names_and_hands_instances_on():
    kinds = {"mean_field": MeanField, "realnvp": RealNVP, "iaf": IAF}
    for name, kind in {**kinds, "chunked": Chunked}.items():
        assert type(hypernets.get(name)) is kind
    flow = RealNVP(2)
    assert hypernets.get(flow) is flow


# -- errors that teach -------------------------------------------------------------


@pytest.mark.parametrize("identifier", ["glow", None, 3, keras.layers.Dense(1)])
def test_unknown_hypernets_are_refused(identifier):
    with pytest.raises(ValueError, match=r"mean_field.*RealNVP\(num_layers=4\)"):
        hypernets.get(identifier)


@every_hypernet
@pytest.mark.parametrize("stddev", [0.0, -1.0, float("nan"), float("inf"), 1e39])
def test_spread_has_to_be_a_positive_number(name, stddev):
    with pytest.raises(ValueError, match="`initial_stddev` to be a positive"):
        MAKE[name](initial_stddev=stddev)


@every_flow
@pytest.mark.parametrize(
    "argument",
    [
        {"num_layers": -1},
        {"hidden_units": (0,)},
        {"hidden_units": 8},
        {"hidden_units": (8.5,)},
        {"max_log_scale": 0.0},
        {"max_log_scale": float("nan")},
        {"max_log_scale": float("inf")},
        {"max_shift": 0.0},
        {"max_shift": float("nan")},
        {"max_shift": float("inf")},
        {"initial_scale": 0.0},
        {"initial_scale": float("nan")},
    ],
)
def test_sizes_have_to_make_sense(name, argument):
    with pytest.raises(ValueError, match=f"`{next(iter(argument))}`"):
        FLOWS[name](**argument)


@every_hypernet
@pytest.mark.parametrize("mean", [float("nan"), [1.0, float("inf")], -1e39, "zeros"])
def test_means_have_to_be_finite_numbers(name, mean):
    with pytest.raises(ValueError, match="`initial_mean` to be finite numbers"):
        MAKE[name](initial_mean=mean)


@every_hypernet
def test_means_have_to_fit(name):
    for mean, shape in (([1.0, 2.0, 3.0], "3,"), (np.ones([4, 1]), "4, 1")):
        with pytest.raises(ValueError, match=rf"has the shape \({shape}\).* D = 4"):
            MAKE[name](initial_mean=mean).build((None, 4))


@every_hypernet
@pytest.mark.parametrize(
    "use",
    [
        lambda hypernet: hypernet.sample_and_log_prob(1),
        lambda hypernet: hypernet.distribution,
        lambda hypernet: hypernet.center(),
    ],
)
def test_without_weights_it_says_what_to_do(name, use):
    with pytest.raises(ValueError, match=r"no weights yet.*build\(\(None, event_size"):
        use(MAKE[name]())


@every_hypernet
@pytest.mark.parametrize("shape", [(3, 1), (3, 5), ()])
def test_noise_has_to_fit(name, shape):
    """One number for all values was taken for D, with the density of one."""
    hypernet = built(MAKE[name](), 4)
    with pytest.raises(ValueError, match=r"noise of shape \[..., 4\] for D = 4"):
        hypernet.transform(tf.zeros(shape))
    expected = hypernet.transform(tf.ones([2, 4]))
    for noise in (np.ones([2, 4]), [[1.0] * 4] * 2):
        np.testing.assert_array_equal(hypernet.transform(noise)[0], expected[0])


# -- of one's own --------------------------------------------------------------------


class Tailed(flows.FlowStep):
    """A step that is a bijector of TFP, without a `call` of its own."""

    def build(self, input_shape):
        shape = (input_shape[-1],)
        self.log_tails = self.add_weight(name="log_tails", shape=shape)

    @property
    def bijector(self):
        return tfb.SinhArcsinh(tailweight=tf.exp(self.log_tails))


class Own(hypernets.Hypernet):
    def make_flow_steps(self, event_size):
        return [Tailed(name="first"), flows.Coupling((4,), name="second")]


def test_a_step_may_be_a_bijector_alone():
    hypernet = built(Own(), 3, 0.3)
    values, log_prob = hypernet.sample_and_log_prob(6, seed=1)
    expected = hypernet.distribution.log_prob(values)
    np.testing.assert_allclose(log_prob, expected, rtol=1e-4, atol=1e-4)
    noise = np.random.default_rng(0).normal(size=(6, 3)).astype("float32")
    tails = np.exp(hypernet.flow_steps[0].log_tails)
    by_hand = np.sinh(np.arcsinh(noise) * tails) * (2 / np.sinh(np.arcsinh(2) * tails))
    found, log_det = hypernet.flow_steps[0](noise)
    np.testing.assert_allclose(found, by_hand, rtol=1e-5)
    assert log_det.shape == (6,)


def test_names_in_files_stay(tmp_path):
    """Keras names what is in a list after its class: a new name loses old files."""
    model = keras.Sequential([keras.Input((3,)), RealNVP(1, (4,))])
    model.save_weights(tmp_path / "m.weights.h5")
    names = []
    with h5py.File(tmp_path / "m.weights.h5") as file:
        file.visit(names.append)
    conditioner = "flow_steps/coupling/conditioner/dense_layers"
    for layer in ("weight_norm_conditioner_dense", "weight_norm_conditioner_dense_1"):
        assert f"layers/real_nvp/{conditioner}/{layer}/vars/2" in names


def test_a_distribution_lists_each_weight_once_in_a_scope():
    with tf.distribute.MirroredStrategy(["CPU:0"]).scope():
        hypernet = built(RealNVP(1, (4,)), 3)
        kept = hypernet.distribution
    assert len(kept.trainable_variables) == len(hypernet.trainable_variables)


class Held(flows.FlowStep):
    """A step whose variable is TensorFlow's, not Keras's."""

    def build(self, input_shape):
        self.log_tails = tf.Variable(tf.zeros(input_shape[-1:]), name="log_tails")

    @property
    def bijector(self):
        return tfb.SinhArcsinh(tailweight=tf.exp(self.log_tails))


class OfTFP(flows.FlowStep):
    """A step with a network that TFP makes of layers of Keras 2."""

    def build(self, input_shape):
        self.network = tfb.AutoregressiveNetwork(2, hidden_units=[4], name="made")

    @property
    def bijector(self):
        return tfb.Invert(tfb.MaskedAutoregressiveFlow(self.network))


class Doubled(flows.FlowStep):
    def call(self, inputs):
        return 2 * inputs


class Shorter(flows.FlowStep):
    def call(self, inputs):
        return inputs[..., 1:], tf.zeros(tf.shape(inputs)[:-1])


class Method(flows.FlowStep):
    def bijector(self):
        return tfb.Scale(2.0)


def hypernet_of(steps):
    class Of(hypernets.Hypernet):
        def make_flow_steps(self, event_size):
            return steps

    return Of()


@pytest.mark.parametrize(
    ("steps", "error", "message"),
    [
        ([Held(name="s")], ValueError, "'s' reads.*log_tails.*neither trained nor"),
        ([OfTFP(name="s")], ValueError, "'s' reads.*dense/kernel.*neither"),
        ([Doubled(name="s")], TypeError, "'s' has to return y .* and log"),
        ([Shorter(name="s")], ValueError, r"'s' has to return .* got \[\[2, 2\]"),
        ([Method(name="s")], TypeError, "`bijector` of Method has to be a property"),
        ([tfb.Exp()], TypeError, "list of `bhn_tf.flows.FlowStep`.*a step: docs/ext"),
        (None, TypeError, "`Of.make_flow_steps` has to return a list.*got None"),
        (Doubled(name="s"), TypeError, "has to return a list"),
        ([flows.Permutation([1, 0])], ValueError, "is of 2 entries.*D = 3"),
    ],
)
def test_steps_that_would_be_no_flow_are_refused(steps, error, message):
    with pytest.raises(error, match=message):
        hypernet_of(steps).build((None, 3))


class Scaled(flows.FlowStep):
    """Linear, so that TFP has one log-determinant for all rows."""

    def build(self, input_shape):
        self.log_scale = self.add_weight(name="log_scale", shape=input_shape[-1:])

    @property
    def bijector(self):
        return tfb.Scale(log_scale=self.log_scale.value)


class Turned(flows.FlowStep):
    """Keeps volumes, and says so by a plain number."""

    def call(self, inputs):
        return inputs[..., ::-1], 0.0

    @property
    def bijector(self):
        return tfb.Permute([2, 1, 0])


class Late(flows.FlowStep):
    """Its network has weights only when it has been called."""

    def build(self, input_shape):
        self.network = keras.layers.Dense(input_shape[-1] - 1, dtype="float32")

    @property
    def bijector(self):
        return tfb.RealNVP(
            num_masked=1,
            shift_and_log_scale_fn=lambda passed, _: (self.network(passed), None),
        )


@pytest.mark.parametrize(("kind", "num_weights"), [(Scaled, 1), (Turned, 0), (Late, 2)])
def test_steps_of_ones_own_that_are_a_flow_are_taken(kind, num_weights):
    step = kind(name="step")
    hypernet = built(hypernet_of([step]), 3, 0.3)
    assert len(step.weights) == num_weights
    values, log_prob = hypernet.sample_and_log_prob(6, seed=1)
    expected = hypernet.distribution.log_prob(values.numpy())
    np.testing.assert_allclose(log_prob, expected, rtol=1e-4, atol=1e-4)


def test_a_step_may_be_used_twice():
    coupling = flows.Coupling((4,), name="coupling")
    turned = flows.Permutation([2, 1, 0], name="turned")
    hypernet = built(hypernet_of([coupling, turned, coupling, turned]), 3, 0.3)
    values, log_prob = hypernet.sample_and_log_prob(6, seed=1)
    expected = hypernet.distribution.log_prob(values.numpy())
    np.testing.assert_allclose(log_prob, expected, rtol=1e-4, atol=1e-4)
    once = built(hypernet_of([flows.Coupling((4,)), turned]), 3)
    assert hypernet.count_params() == once.count_params()


@pytest.mark.parametrize(
    ("identifier", "advice"),
    [
        (tfb.Exp(), "`make_flow_steps`.*extending.md"),
        (RealNVP, r"an instance of the class: `RealNVP\(\)`"),
    ],
    ids=["bijector", "class"],
)
def test_what_is_nearly_a_hypernet_is_refused_with_what_to_do(identifier, advice):
    with pytest.raises(ValueError, match=advice):
        hypernets.get(identifier)


@pytest.mark.few(1)
@every_hypernet
def test_a_number_of_draws_is_an_integer_or_a_tensor(name):
    hypernet = built(MAKE[name](), 3)
    for number in (-1, 0, 1.5, True, "2", None):
        with pytest.raises(ValueError, match="`num_samples` to be an integer of at"):
            hypernet.sample_and_log_prob(number)
    spec = tf.TensorSpec([], tf.int32)
    traced = tf.function(hypernet.sample_and_log_prob, input_signature=[spec])
    for number in (np.int64(2), tf.constant(2)):
        assert hypernet.sample_and_log_prob(number)[0].shape == (2, 3)
    assert traced(tf.constant(2))[0].shape == (2, 3)


def test_a_class_that_files_cannot_name_is_warned_of():
    network = keras.Sequential([keras.Input((3,)), WeightNormDense(2)])
    with pytest.warns(UserWarning, match="class Own is not registered.*its class"):
        bhn_tf.BayesianHypernet(network, Own())
    with warnings.catch_warnings(), keras.saving.custom_object_scope({"Own": Own}):
        warnings.simplefilter("error")
        hypernets.get(Own())


@pytest.mark.filterwarnings("ignore:.*is not registered")
def test_what_a_subclass_lacks_or_has_too_much_is_named():
    class Nothing(hypernets.Hypernet):
        pass

    class Built(hypernets.Hypernet):
        def build(self, input_shape):
            pass

    with pytest.raises(NotImplementedError, match="Nothing has no `make_flow_steps"):
        Nothing().build((None, 3))
    network = keras.Sequential([keras.Input((3,)), WeightNormDense(2)])
    with pytest.raises(ValueError, match=r"`Built.build`.*`make_flow_steps"):
        bhn_tf.BayesianHypernet(network, Built())
    with pytest.raises(NotImplementedError, match="FlowStep has no `bijector`"):
        flows.FlowStep()(tf.zeros([2, 3]))
