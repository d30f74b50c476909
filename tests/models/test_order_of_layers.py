"""g has the order of the network's own layers, whatever is nested in what."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import bhn_tf
from bhn_tf.layers import WeightNormDense
from bhn_tf.networks.paths import layer_paths
from tests import networks

#: Units of every layer, so that a slice of g is known by its size.
UNITS = {"a": 2, "x": 3, "y": 5, "z": 7, "b": 1}


def layers(kind=WeightNormDense):
    return {name: kind(units, name=name) for name, units in UNITS.items()}


def nested(kind=WeightNormDense):
    a, x, y, z, b = layers(kind).values()
    inner = keras.Sequential([keras.Input((2,)), x, y, z], name="nested")
    return keras.Sequential([keras.Input((networks.NUM_FEATURES,)), a, inner, b])


def nested_functional(kind=WeightNormDense):
    a, x, y, z, b = layers(kind).values()
    start = keras.Input((2,))
    inner = keras.Model(start, z(y(x(start))), name="nested")
    inputs = keras.Input((networks.NUM_FEATURES,))
    return keras.Model(inputs, b(inner(a(inputs))))


def nested_twice(kind=WeightNormDense):
    """Models in models, and a nested one whose layers are used again outside."""
    a, x, y, z, b = layers(kind).values()
    innermost = keras.Sequential([keras.Input((3,)), y, z])
    inner = keras.Sequential([keras.Input((2,)), x, innermost])
    inputs = keras.Input((networks.NUM_FEATURES,))
    hidden = a(inputs)
    both = keras.layers.Add()([inner(hidden), innermost(x(hidden))])
    return keras.Model(inputs, b(both))


@keras.saving.register_keras_serializable("tests")
class HoldsNested(keras.Model):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.a, x, y, z, b = layers().values()
        self.inner = keras.Sequential([x, y, z])
        self.b = b

    def build(self, input_shape):
        self.a.build(input_shape)
        self.inner.build((None, 2))
        self.b.build((None, 7))

    def call(self, inputs):
        return self.b(self.inner(self.a(inputs)))


def subclassed():
    model = HoldsNested()
    model.build((None, networks.NUM_FEATURES))
    return model


MAKE = {
    "sequential": nested,
    "functional": nested_functional,
    "nested twice": nested_twice,
    "subclassed": subclassed,
}
D = sum(UNITS.values())


def model_with(primary, **kwargs):
    hypernet = bhn_tf.hypernets.MeanField(initial_stddev=1e-6, **kwargs)
    return bhn_tf.BayesianHypernet(primary, hypernet, "gaussian", num_examples=1)


def layer_of(model, name):
    (found,) = [layer for layer in model.posterior.layers if layer.name == name]
    return found


@pytest.mark.parametrize("name", MAKE)
def test_everything_of_g_is_in_the_order_of_layers(name):
    primary = MAKE[name]()
    scales = {}
    for layer in primary._flatten_layers():
        if layer.name in UNITS:
            scales[layer.name] = np.random.default_rng().normal(size=layer.units)
            layer.scale.assign(scales[layer.name])
    g = np.concatenate([scales[name] for name in UNITS]).astype("float32")
    x, _ = networks.data(3)
    expected = primary(x)

    model = model_with(primary)
    np.testing.assert_allclose(model.hypernet.center(), g, atol=1e-6)
    np.testing.assert_allclose(model.sample_scales(1)[0], g, atol=1e-4)
    np.testing.assert_allclose(model(x, scales=g), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(
        model(x, scales=np.stack([g] * 3)), expected, rtol=1e-5, atol=1e-6
    )
    np.testing.assert_allclose(model.draw(scales=g)(x), expected, rtol=1e-5, atol=1e-6)
    lines = []
    model.summary(print_fn=lines.append)
    summarised = [line.split(":")[0].split("/")[-1] for line in lines[-len(UNITS) :]]
    assert [line.strip() for line in summarised] == list(UNITS)


@pytest.mark.parametrize("name", ["sequential", "functional"])
def test_a_layer_is_called_the_same_after_loading(name, tmp_path):
    """Keras's own `layer.path` is not: two equal runs called them differently."""
    model = model_with(MAKE[name]())
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    found = []
    for each in (model, loaded):
        paths = layer_paths(each.primary)
        found.append([paths[layer] for layer in each.posterior.layers])
    assert found[0] == found[1]
    assert [path.split("/")[-1] for path in found[0]] == list(UNITS)
    assert found[0][1].count("/") == 1


@pytest.mark.parametrize("name", MAKE)
def test_given_numbers_go_to_the_layers_of_their_places(name):
    g = np.arange(1.0, D + 1, dtype="float32")
    model = model_with(MAKE[name](), initial_mean=g)
    x, _ = networks.data(3)
    centre = model.predict(x, num_samples=0, verbose=0)
    network = model.draw(scales=g)
    start = 0
    for layer, units in UNITS.items():
        (found,) = [
            inner
            for inner in network._flatten_layers()
            if inner.name == layer and hasattr(inner, "scale")
        ]
        expected = g[start : start + units]
        np.testing.assert_allclose(tf.reshape(found.scale, [-1]), expected)
        start += units
    np.testing.assert_allclose(network(x), centre, rtol=1e-5)
    # A prior that is right in this order of g, and wrong in any other.
    prior = bhn_tf.BayesianHypernet(
        MAKE[name](), "mean_field", "gaussian", prior_loc=g
    ).prior
    np.testing.assert_allclose(prior.mode(), g)


@pytest.mark.parametrize("make", [nested, nested_functional, nested_twice])
def test_a_report_has_the_order_of_g(make):
    network = make(keras.layers.Dense)
    model = bhn_tf.from_keras(network, "mean_field", likelihood="gaussian")
    report = [row for row in model.conversion_report if row.num_random]
    assert [row.path.split("/")[-1] for row in report] == list(UNITS)
    assert [row.num_random for row in report] == list(UNITS.values())
    sizes = [layer.num_random for layer in model.posterior.layers]
    assert sizes == list(UNITS.values())
    x, _ = networks.data(3)
    np.testing.assert_allclose(
        model.predict(x, num_samples=0, verbose=0), network(x), rtol=1e-5, atol=1e-6
    )


@pytest.mark.few(2)
@pytest.mark.parametrize("name", ["sequential", "functional", "subclassed", "twice"])
def test_a_file_of_another_order_is_refused_and_only_such_a_file(name, tmp_path):
    """A file without the mark is one of version 0.1."""
    from bhn_tf.models import bayesian_hypernet

    make = {**networks.PRIMARIES, "twice": networks.twice}[name]
    config = networks.bayesian(make(), "mean_field").get_config()
    assert config.pop("order_of_values")
    again = bayesian_hypernet.BayesianHypernet.from_config(config)
    assert not again.built or again.num_random == 8
    nested_config = model_with(nested()).get_config()
    del nested_config["order_of_values"]
    with pytest.raises(ValueError, match="version 0.1"):
        bhn_tf.BayesianHypernet.from_config(nested_config)
