"""Networks may hold metrics of any name; logs and `metrics_names` keep theirs apart."""

import keras
import numpy as np
import pytest

import bhn_tf
from bhn_tf.layers import WeightNormDense

ROWS = 6
X = np.random.default_rng(0).normal(size=(ROWS, 3)).astype("float32")
Y = np.arange(ROWS) % 2
ARGUMENTS = {"batch_size": 4, "verbose": 0}
#: Names of terms and compiled metrics, some of which only an evaluation has.
TAKEN = ["loss", "nll", "kl", "kl_weight", "predictive_nll", "regularization"]
TAKEN.append("accuracy")


class Encoder(keras.Model):
    """A model with trackers for its own training, as users write them."""

    def __init__(self, names):
        super().__init__()
        self.dense = WeightNormDense(2, kernel_regularizer="l2")
        self.trackers = [keras.metrics.Mean(name=name) for name in names]

    def call(self, inputs):
        for tracker in self.trackers:
            tracker.update_state(-7.0)
        return self.dense(inputs)


def alone(names):
    return Encoder(names)


def inside(names):
    inputs = keras.Input((3,))
    outputs = keras.layers.Activation("linear")(Encoder(names)(inputs))
    return keras.Model(inputs, outputs)


def assert_evaluates_as_named(model):
    logs = model.evaluate(X, Y, return_dict=True, seed=0, **ARGUMENTS)
    values = model.evaluate(X, Y, seed=0, **ARGUMENTS)
    assert dict(zip(model.metrics_names, values, strict=True)) == pytest.approx(logs)
    return logs


@pytest.mark.slow
@pytest.mark.parametrize("network", [alone, inside])
def test_terms_and_compiled_metrics_keep_their_names(network):
    likelihood = bhn_tf.likelihoods.Categorical(from_logits=True)
    network = network([*TAKEN, "own"])
    model = bhn_tf.BayesianHypernet(network, "mean_field", likelihood)
    model.compile("sgd", metrics=["accuracy"])
    data = {"validation_data": (X, Y)}
    history = model.fit(X, Y, **data, **ARGUMENTS).history
    trained = {name: values[0] for name, values in history.items()}
    assert "predictive_nll" not in trained
    in_fit = {name: trained[f"val_{name}"] for name in [*TAKEN, "own"]}
    for logs in (trained, in_fit, assert_evaluates_as_named(model)):
        assert logs["own"] == -7.0
        assert 0.0 <= logs["accuracy"] <= 1.0
        terms = [logs["nll"], logs["kl_weight"] * logs["kl"] / ROWS]
        terms.append(logs["regularization"])
        assert min(terms) > 0.0
        assert logs["loss"] == pytest.approx(sum(terms), rel=1e-5)


class Watched(keras.layers.Layer):
    """Measures what passes through it."""

    def __init__(self):
        super().__init__()
        self.seen = keras.metrics.Mean(name="seen")

    def call(self, inputs):
        self.seen.update_state(inputs)
        return inputs


def test_metrics_of_one_name_are_numbered():
    """In the order of the members, in training as in evaluation."""
    networks = []
    for bias in (1.0, 2.0, 3.0):
        first = keras.layers.Dense(
            2,
            kernel_initializer="zeros",
            bias_initializer=keras.initializers.Constant(bias),
        )
        layers = [first, Watched(), keras.layers.Softmax()]
        networks.append(keras.Sequential([keras.Input((3,)), *layers]))
    model = bhn_tf.baselines.DeepEnsemble(networks)
    model.compile(keras.optimizers.SGD(0.0))
    history = model.fit(X, Y, **ARGUMENTS).history
    logs = assert_evaluates_as_named(model)
    names = ["seen", "seen_1", "seen_2"]
    assert [history[name] for name in names] == [[1.0], [2.0], [3.0]]
    assert [logs[name] for name in names] == [1.0, 2.0, 3.0]


class Counting(bhn_tf.BayesianHypernet):
    """Holds a metric of its own, and lists it as Keras's guides do."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.steps = keras.metrics.Sum(name="steps")

    @property
    def metrics(self):
        return [*super().metrics, self.steps]

    def train_step(self, data):
        logs = super().train_step(data)
        self.steps.update_state(1.0)
        return {**logs, "steps": self.steps.result()}

    def test_step(self, data):
        logs = super().test_step(data)
        self.steps.update_state(1.0)
        return {**logs, "steps": self.steps.result()}


@pytest.mark.slow
@pytest.mark.parametrize("asks", [False, True])
def test_a_metric_of_a_model_of_ones_own_is_logged_once(asks):
    """Also where a callback evaluates the model between two steps of training."""
    model = Counting(plain(), "mean_field")
    model.compile("sgd", run_eagerly=True)

    def evaluate(*_, **__):
        if asks:
            model.evaluate(X, Y, batch_size=ROWS, verbose=0)

    callback = keras.callbacks.LambdaCallback(on_train_batch_end=evaluate)
    history = model.fit(X, Y, callbacks=[callback], **ARGUMENTS).history
    assert history["steps"] == [2.0]
    assert "steps_1" not in history
    assert assert_evaluates_as_named(model)["steps"] == 2.0


def plain():
    return keras.Sequential([keras.Input((3,)), WeightNormDense(2)])


def named(name):
    return keras.metrics.MeanMetricWrapper(keras.losses.mean_squared_error, name=name)


def nll(y, p):
    """As users call a metric of their own."""
    return keras.losses.mean_squared_error(y, p)


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("argument", "name"),
    [*(("metrics", name) for name in TAKEN[:-1]), ("weighted_metrics", "nll")],
)
def test_a_compiled_metric_does_not_hide_behind_a_term(argument, name):
    model = bhn_tf.BayesianHypernet(Encoder([]), "mean_field", "gaussian")
    model.build((None, 3))
    model.compile("sgd", **{argument: [named(name)]})
    before = model.get_weights()
    y = np.zeros((ROWS, 2))
    for call in (model.fit, model.evaluate):
        with pytest.raises(ValueError, match=rf"\['{name}'\].* other names"):
            call(X, y, **ARGUMENTS)
    for value, old in zip(model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(value, old)


@pytest.mark.slow
def test_outputs_have_terms_too_and_other_names_are_free():
    inputs = keras.Input((3,))
    outputs = {name: keras.layers.Dense(1, name=name)(inputs) for name in "ab"}
    model = bhn_tf.baselines.Deterministic(
        keras.Model(inputs, outputs), dict.fromkeys(outputs, "gaussian")
    )
    y = {name: np.zeros((ROWS, 1)) for name in outputs}
    model.compile("sgd", metrics={"a": [nll]})
    with pytest.raises(ValueError, match=r"\['a_nll'\].* other names"):
        model.fit(X, y, **ARGUMENTS)
    # Neither a KL nor a regularization is among the terms of this one.
    free = ["kl", "regularization", "b_loss"]
    model.compile("sgd", metrics={"a": list(map(named, free))})
    logs = model.fit(X, y, **ARGUMENTS).history
    assert {f"a_{name}" for name in free} < set(logs)
    single = bhn_tf.baselines.Deterministic(plain(), "gaussian")
    single.compile("sgd", metrics=list(map(named, free)))
    assert {*free} < set(single.fit(X, np.zeros((ROWS, 2)), **ARGUMENTS).history)
