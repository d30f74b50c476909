"""A layer that several parts of a network hold stays one, or a warning says so."""

import keras
import numpy as np
import pytest
from keras import layers

import bhn_tf
from tests.conversion import keras_networks

X = np.random.default_rng(0).normal(size=(4, 3, 4)).astype("float32")


def with_head(network):
    """The network with a last layer."""
    x = layers.Flatten()(network.output)
    logits = layers.Dense(keras_networks.NUM_CLASSES, name="logits")(x)
    return keras_networks.randomized(keras.Model(network.input, logits))


def assert_a_file_answers_the_same(model, tmp_path, **options):
    """Returns the loaded model."""
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    answers = [m.predict(X, verbose=0, **options) for m in (model, loaded)]
    np.testing.assert_allclose(*answers, rtol=1e-5)
    return loaded


def in_two_wrappers():
    inputs, dense = keras.Input((3, 4)), layers.Dense(4, name="dense")
    once = layers.TimeDistributed(dense)(inputs)
    return with_head(keras.Model(inputs, layers.TimeDistributed(dense)(once)))


def in_a_wrapper_and_beside_it():
    inputs, dense = keras.Input((3, 4)), layers.Dense(4, name="dense")
    return with_head(keras.Model(inputs, dense(layers.TimeDistributed(dense)(inputs))))


def in_two_models():
    inputs, dense = keras.Input((3, 4)), layers.Dense(4, name="dense")
    first = keras.Sequential([keras.Input((3, 4)), dense])
    second = keras.Sequential([keras.Input((3, 4)), layers.ReLU(), dense])
    return with_head(keras.Model(inputs, second(first(inputs))))


@keras.saving.register_keras_serializable("tests")
class Holds(layers.Layer):
    """Is given a layer that it calls."""

    def __init__(self, held, **kwargs):
        super().__init__(**kwargs)
        self.held = held

    def build(self, input_shape):
        if not self.held.built:
            self.held.build(input_shape)

    def call(self, inputs):
        return keras.ops.tanh(self.held(inputs))

    def get_config(self):
        held = keras.saving.serialize_keras_object(self.held)
        return {**super().get_config(), "held": held}

    @classmethod
    def from_config(cls, config):
        held = keras.saving.deserialize_keras_object(config["held"])
        return cls(**{**config, "held": held})


def in_two_own_layers():
    inputs, dense = keras.Input((3, 4)), layers.Dense(4, name="dense")
    return with_head(keras.Model(inputs, Holds(dense)(Holds(dense)(inputs))))


def in_an_own_layer_and_beside_it():
    inputs, dense = keras.Input((3, 4)), layers.Dense(4, name="dense")
    return with_head(keras.Model(inputs, Holds(dense)(dense(inputs))))


@pytest.mark.parametrize(
    "make", [in_two_wrappers, in_a_wrapper_and_beside_it, in_two_models]
)
def test_one_layer_stays_one_in_copies_and_files(make, tmp_path):
    network = make()
    model = bhn_tf.from_keras(network, "mean_field")  # Warnings are errors here.
    assert model.num_random == 4 + 3
    raw = model(X, scales=model.hypernet.center())
    np.testing.assert_allclose(raw, network(X), rtol=1e-5, atol=1e-6)
    model.compile("adam", jit_compile=False)
    model.fit(X, np.arange(4) % 3, verbose=0)
    loaded = keras_networks.assert_saved_and_served_answer_the_same(
        model, X, tmp_path, 1e-5
    )
    assert loaded.num_random == 4 + 3
    assert loaded.conversion_report == model.conversion_report
    assert [v.path for v in loaded.variables] == [v.path for v in model.variables]
    for each in (model, loaded):
        each.train_on_batch(X, np.arange(4) % 3)
    answers = [m.predict(X, num_samples=0, verbose=0) for m in (model, loaded)]
    np.testing.assert_allclose(*answers, rtol=1e-5)


def test_one_layer_stays_one_in_files_of_baselines(tmp_path):
    network = in_two_models()
    for model in (
        bhn_tf.baselines.Deterministic(network),
        bhn_tf.baselines.DeepEnsemble([network, in_two_wrappers()]),
    ):
        assert_a_file_answers_the_same(model, tmp_path)


@pytest.mark.parametrize("make", [in_two_own_layers, in_an_own_layer_and_beside_it])
def test_what_own_layers_share_is_told_of(make, tmp_path):
    network = make()
    with pytest.warns(UserWarning, match=r"hold \['dense'\]. In the copy"):
        model = bhn_tf.from_keras(network, "mean_field")
    assert model.num_random == 4 + 4 + 3
    with pytest.warns(UserWarning, match=r"hold \['dense'\].* does not load"):
        model = bhn_tf.baselines.Deterministic(network)
    model.save_weights(tmp_path / "model.weights.h5")
    expected = model.predict(X, verbose=0)
    for weight in network.weights:
        weight.assign(keras.ops.zeros_like(weight))
    model.load_weights(tmp_path / "model.weights.h5")
    np.testing.assert_array_equal(model.predict(X, verbose=0), expected)


def test_a_model_that_is_called_twice_is_not_told_of(tmp_path):
    inputs, dense = keras.Input((3, 4)), layers.Dense(4, name="dense")
    each = layers.TimeDistributed(dense)
    inner = keras.Sequential([keras.Input((3, 4)), each, layers.Dense(4)])
    network = with_head(keras.Model(inputs, inner(inner(inputs))))
    model = bhn_tf.from_keras(network, "mean_field")  # Warnings are errors here.
    assert_a_file_answers_the_same(model, tmp_path, seed=1)


@keras.saving.register_keras_serializable("tests")
class MadeByItsClass(keras.Model):
    """A functional model that a file describes by what its constructor takes."""

    def __init__(self, units, **kwargs):
        inputs, dense = keras.Input((3, 4)), layers.Dense(units)
        first = keras.Sequential([keras.Input((3, 4)), dense])
        second = keras.Sequential([keras.Input((3, units)), layers.ReLU(), dense])
        logits = layers.Dense(keras_networks.NUM_CLASSES)
        outputs = logits(layers.Flatten()(Holds(dense)(second(first(inputs)))))
        super().__init__(inputs, outputs, **kwargs)
        self.units = units

    def get_config(self):
        return {"name": self.name, "units": self.units}


def test_a_class_that_shares_layers_itself_is_kept(tmp_path):
    """Its layers may have other names when it is made again."""
    model = bhn_tf.baselines.Deterministic(MadeByItsClass(4))
    loaded = assert_a_file_answers_the_same(model, tmp_path)
    assert type(loaded.members[0]) is MadeByItsClass


def test_an_unbuilt_network_keeps_its_layers_one():
    dense = layers.Dense(4)
    each = [layers.TimeDistributed(dense) for _ in range(2)]
    last = [layers.Flatten(), bhn_tf.layers.WeightNormDense(3)]
    model = bhn_tf.BayesianHypernet(keras.Sequential([*each, *last]), "mean_field")
    again = bhn_tf.BayesianHypernet.from_config(model.get_config())
    first, second = again.primary.layers[:2]
    assert first.layer is second.layer is not dense


@pytest.mark.few(1)
@pytest.mark.parametrize("is_wrapped", [False, True])
def test_a_backward_layer_is_used_twice(is_wrapped, tmp_path):
    inputs = keras.Input((3, 4))
    backward = layers.LSTM(4, return_sequences=True, go_backwards=True, name="back")

    def both():
        forward = layers.LSTM(4, return_sequences=True)
        return layers.Bidirectional(forward, "sum", backward_layer=backward)

    x = both()(both()(inputs) if is_wrapped else backward(inputs))
    network = with_head(keras.Model(inputs, x))
    model = bhn_tf.from_keras(network, "mean_field")
    assert model.num_random == (3 if is_wrapped else 2) * 2 * 16 + 3
    raw = model(X, scales=model.hypernet.center())
    np.testing.assert_allclose(raw, network(X), rtol=1e-4, atol=1e-5)
    assert_a_file_answers_the_same(model, tmp_path, seed=1)


def of_two_wrappers():
    dense = layers.Dense(4, name="dense")
    each = [layers.TimeDistributed(dense) for _ in range(2)]
    return keras.Sequential([keras.Input((3, 4)), each[0], layers.ReLU(), each[1]])


@keras.saving.register_keras_serializable("tests")
class MakesTwoWrappers(layers.Layer):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.held = of_two_wrappers()

    def call(self, inputs):
        return self.held(inputs)


def test_a_model_in_an_own_layer_keeps_its_layers_one(tmp_path):
    inputs = keras.Input((3, 4))
    network = with_head(keras.Model(inputs, MakesTwoWrappers()(inputs)))
    model = bhn_tf.from_keras(network, "mean_field")
    assert model.num_random == 4 + 3
    raw = model(X, scales=model.hypernet.center())
    np.testing.assert_allclose(raw, network(X), rtol=1e-5, atol=1e-6)
    assert_a_file_answers_the_same(model, tmp_path, seed=1)


@pytest.mark.parametrize("skip", [(), Holds])
def test_a_model_that_an_own_layer_was_given_is_separated(skip):
    """Its configuration, which Keras makes, does not tell that the layers are one."""
    inputs = keras.Input((3, 4))
    network = with_head(keras.Model(inputs, Holds(of_two_wrappers())(inputs)))
    with pytest.warns(UserWarning, match=r"hold \['dense'\]. In the copy"):
        model = bhn_tf.from_keras(network, "mean_field", skip=skip)
    raw = model(X, scales=model.hypernet.center())
    np.testing.assert_allclose(raw, network(X), rtol=1e-5, atol=1e-6)


def test_layers_without_weights_are_not_told_of(tmp_path):
    """A dropout has a seed, which files do not hold."""
    inputs, dropout = keras.Input((3, 4)), layers.Dropout(0.5)
    network = with_head(keras.Model(inputs, Holds(dropout)(Holds(dropout)(inputs))))
    for model in (
        bhn_tf.baselines.Deterministic(network),
        bhn_tf.from_keras(network, "mean_field"),
    ):
        model.save(tmp_path / "model.keras")
        keras.saving.load_model(tmp_path / "model.keras")
