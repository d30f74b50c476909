import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

from bhn_tf.flows import MADE, CouplingConditioner, made_masks
from bhn_tf.flows.conditioners import WeightNormConditionerDense, soft_bound
from tests.flows.weights import randomize

HIDDEN = [(), (8,), (8, 5), (1,), (3, 200)]


def coupling(num_inputs, hidden_units, max_log_scale=2.0, max_shift=3.0, **options):
    conditioner = CouplingConditioner(
        num_inputs + 1, hidden_units, max_log_scale, max_shift, **options
    )
    conditioner.build((None, num_inputs))
    return conditioner


def made(num_inputs, hidden_units, max_log_scale=2.0, max_shift=3.0, **options):
    conditioner = MADE(hidden_units, max_log_scale, max_shift, **options)
    conditioner.build((None, num_inputs))
    return conditioner


def reach(masks):
    """Which output sees which input, [inputs, outputs]."""
    result = masks[0]
    for mask in masks[1:]:
        result = result @ mask
    return result > 0


@pytest.mark.parametrize("make", [lambda: CouplingConditioner(3), MADE])
def test_unless_told_the_network_is_that_of_the_paper_and_bounded(make):
    conditioner = make()
    assert tuple(conditioner.hidden_units) == (200,)
    assert (conditioner.max_log_scale, conditioner.max_shift) == (0.5, 2.0)


@pytest.mark.parametrize("hidden_units", HIDDEN)
@pytest.mark.parametrize("size", [2, 3, 7, 40])
def test_masked_outputs_see_only_inputs_before_them(size, hidden_units):
    masks = made_masks(size, hidden_units)
    sizes = [size, *hidden_units, size]
    assert [mask.shape for mask in masks] == list(itertools.pairwise(sizes))
    assert not np.tril(reach(masks)).any()


@pytest.mark.parametrize("hidden_units", [(), (39,), (200,), (60, 45)])
def test_wide_masks_leave_out_no_earlier_input(hidden_units):
    np.testing.assert_array_equal(
        reach(made_masks(40, hidden_units)), np.triu(np.ones((40, 40), bool), 1)
    )


@pytest.mark.parametrize("hidden_units", [(8,), (8, 5), (200,)])
@pytest.mark.parametrize("size", [2, 10, 1024])
def test_narrow_masks_use_every_input_but_the_last(size, hidden_units):
    uses = reach(made_masks(size, hidden_units)).any(axis=1)
    assert uses[:-1].all() and not uses[-1]


@pytest.mark.parametrize("units", [9, 20, 200])
def test_wide_masks_share_their_units_evenly(units):
    # A unit of degree d sees d inputs.
    degrees = made_masks(10, [units])[0].sum(axis=0)
    counts = np.bincount(degrees.astype(int), minlength=10)[1:]
    assert counts.max() - counts.min() <= 1


@pytest.mark.parametrize("hidden_units", [(8,), (200,), (8, 5), (5, 60)])
@pytest.mark.parametrize("size", [2, 3, 10])
def test_every_hidden_unit_of_a_mask_has_an_input_and_an_output(size, hidden_units):
    masks = made_masks(size, hidden_units)
    for before, after in itertools.pairwise(masks):
        assert before.any(axis=0).all()
        assert after.any(axis=1).all()


@pytest.mark.parametrize("make", [coupling, made])
@pytest.mark.parametrize("hidden_units", HIDDEN)
def test_fresh_conditioner_is_zero_at_zero_and_small_elsewhere(make, hidden_units):
    conditioner = make(5, hidden_units)
    for output in conditioner(tf.zeros([2, 5])):
        np.testing.assert_array_equal(output, 0.0)
    noise = tf.random.stateless_normal([64, 5], [1, 2])
    for output in conditioner(noise):
        assert 0 < np.abs(output).max() < 0.1


@pytest.mark.parametrize("make", [coupling, made])
@pytest.mark.parametrize("weight_norm", [True, False])
def test_the_scale_of_the_last_layer_is_the_size_of_fresh_outputs(make, weight_norm):
    noise = tf.random.stateless_normal([256, 40], [1, 2])
    sizes = []
    for scale in (0.01, 0.02):
        keras.utils.set_random_seed(0)
        conditioner = make(
            40, (200,), weight_norm=weight_norm, initial_scale=scale, max_shift=None
        )
        sizes.append(np.std(conditioner(noise)[0]))
    # The norm of 200 units is that of their means and deviations, about 1 for each.
    assert 0.002 < sizes[0] < 0.02
    np.testing.assert_allclose(sizes[1], 2 * sizes[0], rtol=1e-3)


def test_without_weight_norm_a_layer_is_a_plain_product():
    mask = made_masks(40, [24])[0]
    layer = WeightNormConditionerDense(24, 1.0, mask, weight_norm=False)
    layer.build((None, 40))
    assert [weight.name for weight in layer.weights[-2:]] == ["direction_2", "bias"]
    inputs = tf.random.stateless_normal([8, 40], [1, 2])
    # Twice the weights are twice the outputs: nothing divides by their norm.
    once = layer(inputs).numpy()
    for direction in layer.directions:
        direction.assign(2.0 * direction)
    np.testing.assert_allclose(layer(inputs), 2.0 * once, rtol=1e-5)


@pytest.mark.parametrize("make", [coupling, made])
@pytest.mark.parametrize("bound", [0.5, 2.0])
def test_outputs_are_bounded_whatever_the_weights(make, bound):
    conditioner = make(5, (8,), bound, max_shift=3 * bound)
    randomize(conditioner, 100.0)
    noise = 1e3 * tf.random.stateless_normal([64, 5], [1, 2])
    shift, log_scale = conditioner(noise)
    assert 0.9 * bound < np.abs(log_scale).max() <= bound
    assert 2.7 * bound < np.abs(shift).max() <= 3 * bound


@pytest.mark.parametrize("make", [coupling, made])
def test_a_shift_without_a_bound_goes_far(make):
    conditioner = make(5, (8,), max_shift=None)
    randomize(conditioner, 100.0)
    shift, _ = conditioner(1e3 * tf.random.stateless_normal([64, 5], [1, 2]))
    assert np.isfinite(shift).all() and np.abs(shift).max() > 100


def test_bound_is_smooth_and_hardly_felt_near_zero():
    values = tf.linspace(-10.0, 10.0, 41)
    bounded = soft_bound(values, 2.0)
    assert (np.diff(bounded) > 0).all()
    np.testing.assert_allclose(soft_bound(tf.constant(0.1), 2.0), 0.1, rtol=1e-3)


@pytest.mark.few(3)
@pytest.mark.parametrize("hidden_units", [(), (24,), (24, 18)])
@pytest.mark.parametrize("size", [2, 3, 7])
def test_jacobian_of_made_is_strictly_lower_triangular(size, hidden_units):
    conditioner = made(size, hidden_units)
    randomize(conditioner, 0.5)
    noise = tf.random.stateless_normal([16, size], [3, 4])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(noise)
        outputs = conditioner(noise)
    for output in outputs:
        jacobian = tape.batch_jacobian(output, noise).numpy()
        np.testing.assert_array_equal(np.triu(jacobian), 0.0)
        # ... and not for want of connections: some row sees each earlier input.
        assert np.abs(jacobian).max(axis=0)[np.tril_indices(size, -1)].min() > 0


def test_a_single_input_still_learns_its_weights():
    conditioner = coupling(1, (8,))
    randomize(conditioner, 0.1)
    (direction,) = conditioner.dense_layers[0].directions
    with tf.GradientTape() as tape:
        shift, log_scale = conditioner(tf.random.stateless_normal([16, 1], [1, 2]))
        loss = tf.reduce_mean(shift + log_scale)
    # With the exact norm, this gradient would be nothing but rounding.
    assert np.abs(tape.gradient(loss, direction.value)).max() > 1e-5


def test_shift_and_log_scale_differ():
    conditioner = coupling(5, (8,))
    randomize(conditioner, 0.3)
    shift, log_scale = conditioner(tf.random.stateless_normal([4, 5], [1, 2]))
    assert shift.shape == log_scale.shape == (4, 6)
    assert np.abs(shift - log_scale).min() > 1e-3


@pytest.mark.parametrize("units", [150, 80, 37])
def test_a_masked_layer_in_blocks_equals_the_masked_matrix(units):
    num_inputs = 400
    mask = made_masks(num_inputs, [units])[0]
    layer = WeightNormConditionerDense(units, 0.5, mask)
    layer.build((None, num_inputs))
    randomize(layer, 0.3)
    assert len(layer.directions) > 1
    stored = sum(int(np.prod(block.shape)) for block in layer.directions)
    assert stored < 0.7 * mask.size
    direction = np.zeros_like(mask)
    for block, stripe in zip(
        layer.directions,
        np.split(np.arange(units), np.linspace(0, units, 5).astype(int)[1:-1]),
        strict=True,
    ):
        values = keras.ops.convert_to_numpy(block)
        direction[: len(values), stripe] = values
    direction *= mask
    inputs = tf.random.stateless_normal([8, num_inputs], [1, 2])
    norm = np.sqrt((direction**2).sum(axis=0) + 1e-6)
    expected = inputs @ (direction * keras.ops.convert_to_numpy(layer.scale) / norm)
    expected += keras.ops.convert_to_numpy(layer.bias)
    np.testing.assert_allclose(layer(inputs), expected, rtol=1e-4, atol=1e-5)
