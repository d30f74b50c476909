"""Models may be built, compiled, asked, saved and loaded in any order before training.

What is made in one call and needed by another (trackers, optimizer, compiled
functions) has to be there whichever comes first, and Keras locks a layer's state in
between.
"""

import keras
import numpy as np
import pytest
import tensorflow as tf

import bhn_tf
from bhn_tf.baselines import DeepEnsemble, Deterministic, MCDropout
from bhn_tf.layers import WeightNormDense
from tests import networks

LOGITS = bhn_tf.likelihoods.Categorical(from_logits=True)
BUILT = (keras.Input((networks.NUM_FEATURES,)),)


def network(inputs=(), dense=keras.layers.Dense):
    return keras.Sequential(
        [
            *inputs,
            dense(5, activation="relu"),
            keras.layers.Dropout(0.5),
            dense(networks.NUM_CLASSES),
        ]
    )


MAKE = {
    "hypernet": lambda inputs: bhn_tf.BayesianHypernet(
        network(inputs, WeightNormDense), "mean_field", LOGITS
    ),
    "deterministic": lambda inputs: Deterministic(network(inputs), LOGITS),
    "ensemble": lambda inputs: DeepEnsemble(
        [network(inputs) for _ in range(2)], LOGITS
    ),
    "dropout": lambda inputs: MCDropout(network(inputs), LOGITS),
}

# The models with most parts; the others are built of the same ones.
each_model = pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            name, marks=[pytest.mark.slow] * (name in ("deterministic", "dropout"))
        )
        for name in MAKE
    ],
)


class Calls:
    """Calls on a model; `load` replaces it by another."""

    def __init__(self, model, path):
        self.model, self._path = model, path
        self.x, self.y = networks.data(6)

    def build(self):
        self.model.build((None, networks.NUM_FEATURES))

    def compile(self):
        self.model.compile("adam", metrics=["accuracy"], run_eagerly=True)

    def fit(self):
        weights = networks.weights_of(self.model) if self.model.built else []
        logs = self.model.fit(self.x, self.y, batch_size=4, verbose=0).history
        assert np.isfinite(list(logs.values())).all() and "accuracy" in logs
        if weights:
            now = networks.weights_of(self.model)
            assert any(map(np.any, (a != b for a, b in zip(weights, now, strict=True))))

    def evaluate(self):
        # N is not known before the first training.
        if getattr(self.model, "num_examples", 1) is None:
            self.model.num_examples = 6
        logs = self.model.evaluate(self.x, self.y, verbose=0, return_dict=True)
        assert np.isfinite(list(logs.values())).all()
        assert {"accuracy", "predictive_nll"} <= set(logs)

    def predict(self):
        means = self.model.predict(self.x, num_samples=2, verbose=0)
        np.testing.assert_allclose(means.sum(axis=-1), 1, rtol=1e-5)

    def load(self):
        arguments = {"num_samples": 2, "seed": 1, "verbose": 0}
        is_built = self.model.built
        expected = self.model.predict(self.x, **arguments) if is_built else None
        if is_built:
            self.model.save(self._path)
        else:
            with pytest.warns(UserWarning, match="not yet been built"):
                self.model.save(self._path)
        self.model = keras.saving.load_model(self._path)
        if is_built:
            found = self.model.predict(self.x, **arguments)
            np.testing.assert_array_equal(found, expected)


def orders(calls):
    """Orders in which each call comes first, last, and before and after each other."""
    yield from (calls[start:] + calls[:start] for start in range(len(calls)))
    yield calls[::-1]


@pytest.mark.slow
@pytest.mark.parametrize("is_built", [True, False], ids=["built", "unbuilt"])
@each_model
def test_any_order_before_training(name, is_built, tmp_path):
    inputs = BUILT if is_built else ()
    names = ["build", "compile", "predict", "load"]
    for order in orders(names[is_built:]):
        calls = Calls(MAKE[name](inputs), tmp_path / "model.keras")
        for call in (*order, "fit", "evaluate"):
            getattr(calls, call)()


@pytest.mark.slow
@each_model
def test_any_order_once_compiled(name, tmp_path):
    """Compiled again too: the second time starts its own logs and optimizer."""
    for order in orders(["fit", "evaluate", "load", "compile"]):
        calls = Calls(MAKE[name](()), tmp_path / "model.keras")
        for call in ("compile", *order, "fit", "evaluate"):
            getattr(calls, call)()


@pytest.mark.slow
@each_model
def test_in_compiled_steps(name, tmp_path):
    """A graph makes no variables: a step's variables exist before it is traced."""
    calls = Calls(MAKE[name](()), tmp_path / "model.keras")
    calls.build()
    calls.model.compile("adam", metrics=["accuracy"], jit_compile=False)
    for call in ("fit", "load", "evaluate"):
        getattr(calls, call)()
    calls.model.compile("sgd", metrics=["accuracy"], jit_compile=False)
    for call in ("evaluate", "fit"):
        getattr(calls, call)()


def test_a_network_that_was_changed_since_is_refused():
    """The new head would not be random, and no file of the model could be loaded."""
    x, y = networks.data(6)
    network = keras.Sequential(
        [
            keras.Input((networks.NUM_FEATURES,)),
            bhn_tf.layers.WeightNormDense(4),
            bhn_tf.layers.WeightNormDense(3),
        ]
    )
    model = bhn_tf.BayesianHypernet(network, "mean_field")
    model.compile("sgd", run_eagerly=True)
    model.fit(x, y, verbose=0)
    network.pop()
    network.add(bhn_tf.layers.WeightNormDense(3))
    for call in (lambda: model.fit(x, y, verbose=0), lambda: model.compile("sgd")):
        with pytest.raises(ValueError, match="changed after the model was made"):
            call()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mean_field", "units"])
def test_a_loop_of_ones_own_may_begin_with_a_step(name):
    """Without `fit`, nothing has told N, or the units of the targets."""
    x, y = networks.data(6)
    likelihood = LOGITS
    if name == "units":
        likelihood, y = "gaussian", x[:, :3]
    model = bhn_tf.BayesianHypernet(
        network(BUILT, WeightNormDense),
        "mean_field",
        likelihood,
        normalize_targets=name == "units",
        num_examples=6 if name == "units" else None,
    )
    model.compile("sgd")
    data = tf.constant(x), tf.constant(y)
    for step in (model.train_step, tf.function(model.train_step)):
        with pytest.raises(ValueError, match="call `fit` first"):
            step(data)
    if name == "units":
        model.likelihood.adapt(y)
    model.num_examples = 6
    logs = tf.function(model.train_step)(data)
    np.testing.assert_allclose(
        logs["loss"], logs["nll"] + logs["kl"] / 6, rtol=1e-5, atol=1e-6
    )
    with pytest.raises(ValueError, match="`test_on_batch` for one batch"):
        model.test_step(data)


@pytest.mark.few(1)
@pytest.mark.parametrize("is_trained", [False, True])
def test_weights_thawed_since_compile_ask_for_another(is_trained):
    """A compiled step would leave them frozen, and a new one fail within it."""
    x, y = networks.data(6)
    primary = network(BUILT, WeightNormDense)
    primary.layers[0].trainable = False
    model = bhn_tf.BayesianHypernet(primary, "mean_field")
    model.compile("sgd", jit_compile=False)
    if is_trained:
        model.fit(x, y, verbose=0)
    primary.layers[0].trainable = True
    for call in (
        lambda: model.fit(x, y, verbose=0),
        lambda: model.train_on_batch(x, y),
    ):
        with pytest.raises(ValueError, match="kernel.*call `compile` with a new"):
            call()
    before = primary.layers[0].direction.numpy()
    model.compile("sgd", jit_compile=False)
    model.fit(x, y, verbose=0)
    assert not np.array_equal(before, primary.layers[0].direction.numpy())


class Wrapping(keras.optimizers.Optimizer):
    """An optimizer of one's own, which leaves all to another."""

    def __init__(self, inner):
        super().__init__(learning_rate=0.1)
        self.inner = inner

    def build(self, variables):
        self.inner.build(variables)
        self.built = True

    def apply(self, grads, trainable_variables=None):
        self.inner.apply(grads, trainable_variables)


@pytest.mark.slow
def test_an_optimizer_that_wraps_another_trains():
    x, y = networks.data(6)
    model = bhn_tf.BayesianHypernet(network(BUILT, WeightNormDense), "mean_field")
    model.compile(Wrapping(keras.optimizers.SGD(0.1)))
    before = model.primary.layers[0].direction.numpy()
    model.fit(x, y, verbose=0)
    model.train_on_batch(x, y)
    assert not np.array_equal(before, model.primary.layers[0].direction.numpy())


class Compiled(keras.layers.Layer):
    """A layer that compiles its own call, in which there is a custom gradient."""

    @tf.function
    def call(self, inputs):
        return tf.nn.silu(inputs)


def export(model, folder):
    model.export(folder)


def predict(model, folder):
    model.predict(networks.data(6)[0], verbose=0)


def evaluate(model, folder):
    model.evaluate(*networks.data(6), verbose=0)


@pytest.mark.slow
@pytest.mark.parametrize("use", [predict, evaluate, export])
def test_layers_that_compile_their_call_are_trained_later(use, tmp_path):
    """Their graph is traced in the first use, and differentiated in the second."""
    x, y = networks.data(6)
    layers = [WeightNormDense(5), Compiled(), WeightNormDense(networks.NUM_CLASSES)]
    model = bhn_tf.BayesianHypernet(
        keras.Sequential([*BUILT, *layers]), "mean_field", LOGITS, num_examples=6
    )
    model.compile("sgd")
    use(model, tmp_path)
    assert np.isfinite(model.fit(x, y, verbose=0).history["loss"][0])
