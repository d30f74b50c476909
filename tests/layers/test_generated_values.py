"""The scope that gives layers generated values, in every kind of caller."""

import threading
from typing import ClassVar

import keras
import numpy as np
import pytest
import tensorflow as tf

from bhn_tf.layers import WeightNormDense
from bhn_tf.layers.generated import current_value, generated_value, generated_values
from bhn_tf.layers.random_layer import RandomLayer

NUM_FEATURES = 4


class Subclassed(keras.Model):
    """Calls one layer twice, and another inside a nested model."""

    def __init__(self, shared, nested, **kwargs):
        super().__init__(**kwargs)
        self.shared = shared
        self.nested = nested

    def call(self, inputs):
        return self.nested(self.shared(self.shared(inputs)))


def functional(shared, nested):
    inputs = keras.Input((NUM_FEATURES,))
    return keras.Model(inputs, nested(shared(shared(inputs))))


def nested_twice(shared, nested):
    inner = keras.Sequential([keras.Input((NUM_FEATURES,)), shared, shared])
    return keras.Sequential([keras.Input((NUM_FEATURES,)), inner, nested])


CALLERS = {
    "eager": lambda function: function,
    "graph": lambda function: tf.function(function),
    "xla": lambda function: tf.function(function, jit_compile=True),
    "graph_in_graph": lambda function: tf.function(
        lambda *values: tf.function(function)(*values)
    ),
}


@pytest.fixture
def layers():
    keras.utils.set_random_seed(0)
    shared = WeightNormDense(NUM_FEATURES, activation="tanh", name="shared")
    last = WeightNormDense(3, random="scale_and_bias", name="last")
    nested = keras.Sequential([keras.Input((NUM_FEATURES,)), last])
    shared.build((None, NUM_FEATURES))
    return shared, nested


@pytest.fixture
def inputs():
    return np.random.default_rng(0).normal(size=(5, NUM_FEATURES)).astype("float32")


def variables_of(layers):
    shared, nested = layers
    return [*shared.generated_weights, *nested.layers[-1].generated_weights]


def draw_of(variables, seed, rows=()):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(*rows, *v.shape)).astype("float32") for v in variables]


def by_hand(inputs, layers, values):
    """The network of `layers` with a draw, in numpy."""
    shared, nested = layers
    shared_scale, last_scale, last_bias = values
    v, w = (layer.kernel.numpy() for layer in (shared, nested.layers[-1]))
    v, w = v / np.linalg.norm(v, axis=0), w / np.linalg.norm(w, axis=0)
    hidden = inputs
    for _ in range(2):
        hidden = np.tanh(hidden @ v * shared_scale + shared.bias.numpy())
    return hidden @ w * last_scale + last_bias


@pytest.mark.few(4)
@pytest.mark.parametrize("caller", CALLERS.values(), ids=CALLERS)
@pytest.mark.parametrize("make", [functional, nested_twice, Subclassed])
@pytest.mark.parametrize("rows", [(), (5,)], ids=["one_for_all", "one_each"])
def test_draws_reach_every_layer_of_every_model(make, caller, rows, layers, inputs):
    model = make(*layers)
    variables = variables_of(layers)

    @caller
    def outputs_of(inputs, *values):
        with generated_values(
            {id(v): value for v, value in zip(variables, values, strict=True)}
        ):
            return model(inputs)

    # Twice, since a draw is an argument of the traced function, not part of it.
    for seed in (1, 2):
        values = draw_of(variables, seed, rows)
        np.testing.assert_allclose(
            outputs_of(tf.constant(inputs), *map(tf.constant, values)),
            by_hand(inputs, layers, values),
            rtol=1e-5,
            atol=1e-5,
        )


@pytest.mark.parametrize("make", [functional, Subclassed])
@pytest.mark.parametrize("loop", [tf.map_fn, tf.vectorized_map])
def test_a_loop_over_draws(make, loop, layers, inputs):
    model = make(*layers)
    variables = variables_of(layers)
    draws = draw_of(variables, 1, (4,))

    @tf.function
    def outputs_of_all(*draws):
        def outputs_of(values):
            with generated_values(
                {id(v): value for v, value in zip(variables, values, strict=True)}
            ):
                return model(tf.constant(inputs))

        signature = {"fn_output_signature": tf.float32} if loop is tf.map_fn else {}
        return loop(outputs_of, draws, **signature)

    expected = [
        by_hand(inputs, layers, [draw[index] for draw in draws]) for index in range(4)
    ]
    np.testing.assert_allclose(
        outputs_of_all(*map(tf.constant, draws)), expected, rtol=1e-5, atol=1e-5
    )


def test_gradient_reaches_the_generated_values_and_not_the_variables(layers, inputs):
    model = functional(*layers)
    variables = variables_of(layers)
    values = [tf.constant(value) for value in draw_of(variables, 1)]
    own = [variable.value for variable in variables]
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(values)
        with generated_values(
            {id(v): value for v, value in zip(variables, values, strict=True)}
        ):
            loss = tf.reduce_sum(model(inputs) ** 2)
    for gradient in tape.gradient(loss, values):
        assert np.abs(gradient).min() > 0
    assert tape.gradient(loss, own) == [None] * len(own)


def test_the_inner_scope_comes_first_and_the_outer_one_fills_in():
    one, other, third = (keras.Variable([float(i)]) for i in range(3))
    with generated_values(
        {id(one): tf.constant([10.0]), id(other): tf.constant([11.0])}
    ):
        with generated_values({id(one): tf.constant([20.0])}):
            values = [current_value(v).numpy().item() for v in (one, other, third)]
        assert values == [20.0, 11.0, 2.0]
        assert current_value(one).numpy() == [10.0]
    assert current_value(one).numpy() == [0.0]


def test_a_scope_ends_with_an_error_too():
    variable = keras.Variable([1.0])
    values = {id(variable): tf.constant([2.0])}
    with pytest.raises(RuntimeError), generated_values(values):
        raise RuntimeError
    assert generated_value(variable) is None


def test_a_scope_belongs_to_its_thread(layers, inputs):
    model = functional(*layers)
    variables = variables_of(layers)
    num_threads = 4
    outputs, own_outputs = [None] * num_threads, [None] * num_threads
    barrier = threading.Barrier(num_threads + 1, timeout=60)
    expected_own = model(inputs).numpy()

    def run(index):
        own_outputs[index] = model(inputs).numpy()
        values = draw_of(variables, index)
        with generated_values(
            {id(v): tf.constant(x) for v, x in zip(variables, values, strict=True)}
        ):
            # All scopes are open at the same time.
            barrier.wait()
            outputs[index] = model(inputs).numpy()
            barrier.wait()

    threads = [threading.Thread(target=run, args=(i,)) for i in range(num_threads)]
    foreign = draw_of(variables, 99)
    with generated_values(
        {id(v): tf.constant(x) for v, x in zip(variables, foreign, strict=True)}
    ):
        for thread in threads:
            thread.start()
        barrier.wait()
        barrier.wait()
        for thread in threads:
            thread.join()
    for index in range(num_threads):
        np.testing.assert_allclose(own_outputs[index], expected_own, rtol=1e-6)
        expected = by_hand(inputs, layers, draw_of(variables, index))
        np.testing.assert_allclose(outputs[index], expected, rtol=1e-5, atol=1e-5)


def test_what_a_layer_of_ones_own_names_wrongly_is_said():
    class Misnamed(RandomLayer, keras.layers.Layer):
        GENERATED: ClassVar = {"none": (), "scale": ("scales",)}

        def build(self, input_shape):
            self.scale = self.add_weight(name="scale", shape=input_shape[-1:])

    layer = Misnamed()
    layer.build((None, 3))
    with pytest.raises(AttributeError, match=r"`Misnamed.GENERATED` has \['scales'\]"):
        _ = layer.num_random
    with pytest.raises(TypeError, match="before the Keras layer in the bases of Back"):

        class Backwards(keras.layers.Layer, RandomLayer):
            pass
