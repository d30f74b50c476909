"""The baselines of a Bayesian hypernetwork, with the same calls."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import bhn_tf
from bhn_tf.baselines import DeepEnsemble, Deterministic, MCDropout
from bhn_tf.layers import MonteCarloDropout
from bhn_tf.uncertainty import SCORES
from tests import networks


def with_dropout(rate=0.5, layer=keras.layers.Dropout):
    return keras.Sequential(
        [
            keras.Input((networks.NUM_FEATURES,)),
            keras.layers.Dense(20, activation="relu"),
            layer(rate),
            keras.layers.Dense(20, activation="relu"),
            layer(rate),
            keras.layers.Dense(networks.NUM_CLASSES),
        ]
    )


MAKE = {
    "deterministic": lambda: Deterministic(networks.plain()),
    "ensemble": lambda: DeepEnsemble([networks.plain() for _ in range(3)]),
    "dropout": lambda: MCDropout(with_dropout()),
}
NUM_DRAWS = {"deterministic": 1, "ensemble": 3, "dropout": 5}


@pytest.fixture(scope="module", params=MAKE)
def trained(request):
    model = networks.compiled(MAKE[request.param](), metrics=["accuracy"])
    x, y = networks.data(33)
    history = model.fit(x, y, batch_size=8, validation_split=0.25, verbose=0).history
    return request.param, model, history


@pytest.mark.few(1)
def test_logs(trained):
    _, model, history = trained
    assert {"loss", "nll", "accuracy", "val_loss", "val_predictive_nll"} <= set(history)
    assert "kl" not in history
    assert history["loss"] == history["nll"] and history["loss"][0] > 0.5
    assert history["val_loss"] == history["val_nll"]
    logs = model.evaluate(*networks.data(33), verbose=0, return_dict=True)
    assert set(logs) == {"loss", "nll", "accuracy", "predictive_nll"}
    assert logs["predictive_nll"] <= logs["nll"] + 1e-6  # Jensen's inequality.


def test_the_same_calls_answer(trained):
    name, model, _ = trained
    x, y = networks.data(9)
    draws = {"num_samples": 5, "seed": 1, "verbose": 0}
    samples = model.predict_samples(x, **draws)
    assert samples.shape == (9, NUM_DRAWS[name], networks.NUM_CLASSES)
    np.testing.assert_allclose(samples.sum(axis=-1), 1, atol=1e-5)
    mean = samples.mean(axis=1)
    for batch_size in (1, 4, 1_000):
        found = model.predict(x, batch_size, **draws)
        np.testing.assert_allclose(found, mean, atol=1e-5)
    np.testing.assert_allclose(
        model.predictive(x, num_samples=5, seed=1), mean, atol=1e-5
    )
    answer = model.predict_uncertainty(x, 4, **draws)
    for score_name, score in SCORES.items():
        np.testing.assert_allclose(answer[score_name], score(samples), atol=1e-5)
    logs = model.evaluate(x, y, num_samples=5, seed=1, verbose=0, return_dict=True)
    likely = samples[np.arange(9), :, y]
    assert logs["nll"] == pytest.approx(-np.log(likely).mean(), rel=1e-4)
    expected = -np.log(likely.mean(axis=1)).mean()
    assert logs["predictive_nll"] == pytest.approx(expected, rel=1e-4)


@pytest.mark.few(2)
def test_gradient_of_the_prediction(trained):
    _, model, _ = trained
    x = tf.constant(networks.data(3)[0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        likely = model.predictive(x, num_samples=4, seed=1)[:, 0]
    gradient = keras.ops.convert_to_numpy(tape.gradient(likely, x))
    assert np.isfinite(gradient).all() and np.abs(gradient).sum() > 0


@pytest.mark.few(1)
def test_bad_data_are_refused(trained):
    _, model, _ = trained
    x, y = networks.data(4)
    for args in ((x[:0], y[:0]), (x, y + 3), (x * np.nan, y), (x, y[:3])):
        with pytest.raises(ValueError, match="empty|[Ll]abels|NaN|Give one"):
            model.fit(*args, verbose=0)
    with pytest.raises(TypeError, match="n_samples"):
        model.predict(x, n_samples=3)
    with pytest.raises(ValueError, match="likelihood"):
        model.compile("adam", loss="mse")


def test_answering_changes_no_weight(trained):
    _, model, _ = trained
    x, y = networks.data(9)
    before = networks.weights_of(model)
    model.predict_uncertainty(x, num_samples=2, verbose=0)
    model.evaluate(x, y, verbose=0)
    for value, old in zip(networks.weights_of(model), before, strict=True):
        np.testing.assert_array_equal(value, old)


def test_deterministic_is_stock_keras():
    x, y = networks.data(16)
    keras.utils.set_random_seed(1)
    stock = networks.plain()
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    stock.compile("adam", loss, jit_compile=False)
    keras.utils.set_random_seed(1)
    model = networks.compiled(Deterministic(networks.plain()))
    arguments = {"batch_size": 4, "epochs": 3, "shuffle": False, "verbose": 0}
    expected = stock.fit(x, y, **arguments).history
    history = model.fit(x, y, **arguments).history
    np.testing.assert_allclose(history["loss"], expected["loss"], rtol=1e-5)
    np.testing.assert_allclose(
        model.predict(x, verbose=0), tf.nn.softmax(stock(x)), atol=1e-5
    )
    # Without noise, numbers of samples and seeds change nothing.
    np.testing.assert_array_equal(
        model.predict(x, num_samples=7, seed=1, verbose=0),
        model.predict(x, num_samples=0, verbose=0),
    )


def test_each_member_learns_as_if_alone():
    """With an optimizer whose step follows the size of the gradient."""
    x, y = networks.data(16)
    members = [networks.plain() for _ in range(3)]
    alone = [keras.models.clone_model(member) for member in members]
    for single, member in zip(alone, members, strict=True):
        single.set_weights(member.get_weights())
    arguments = {"batch_size": 4, "shuffle": False, "verbose": 0}

    def fit(model):
        networks.compiled(model, keras.optimizers.SGD(0.3))
        return model.fit(x, y, **arguments).history["loss"]

    loss = fit(DeepEnsemble(members))
    losses = [fit(Deterministic(single)) for single in alone]
    np.testing.assert_allclose(loss, np.mean(losses, axis=0), rtol=1e-5)
    for single, member in zip(alone, members, strict=True):
        for value, wanted in zip(
            member.get_weights(), single.get_weights(), strict=True
        ):
            np.testing.assert_allclose(value, wanted, atol=1e-6)


def test_ensembles_count_the_regularization_of_every_member():
    def member(strength):
        return keras.Sequential(
            [
                keras.Input((networks.NUM_FEATURES,)),
                keras.layers.Dense(
                    networks.NUM_CLASSES,
                    kernel_initializer="ones",
                    kernel_regularizer=keras.regularizers.L1(strength),
                ),
            ]
        )

    model = DeepEnsemble([member(0.0), member(0.5)])
    networks.compiled(model, keras.optimizers.SGD(0.0))
    logs = model.fit(*networks.data(8), verbose=0).history
    # Twelve entries of one: 0 and 6, so 3 for each of the two.
    assert logs["regularization"][0] == pytest.approx(3.0)
    assert logs["loss"][0] == pytest.approx(logs["nll"][0] + 3.0)


@pytest.fixture(scope="module")
def dropout():
    return networks.compiled(MCDropout(with_dropout()))


def test_every_draw_is_another_network(dropout):
    x, _ = networks.data(4)
    samples = dropout.predict_samples(x, num_samples=64, verbose=0)
    assert len(np.unique(samples[0], axis=0)) == 64
    other = dropout.predict_samples(x, num_samples=64, verbose=0)
    assert not np.allclose(samples, other)


@pytest.mark.slow
def test_a_seed_means_the_same_masks_with_xla_and_without():
    x, _ = networks.data(8)
    model = MCDropout(with_dropout())
    answers = []
    for jit_compile in (True, False):
        networks.compiled(model, jit_compile=jit_compile)
        answers.append(model.predict(x, num_samples=8, seed=1, verbose=0))
    np.testing.assert_allclose(*answers, atol=1e-5)


def test_all_rows_of_a_draw_share_its_masks(dropout):
    """A row's answer does not depend on its neighbours."""
    x, _ = networks.data(20)
    draws = {"num_samples": 8, "seed": 2, "verbose": 0}
    samples = dropout.predict_samples(x, **draws)
    for batch_size in (1, 7):
        found = dropout.predict_samples(x, batch_size, **draws)
        np.testing.assert_allclose(found, samples, atol=1e-5)
    twice = dropout.predict_samples(np.repeat(x[:1], 5, axis=0), **draws)
    np.testing.assert_allclose(twice, np.repeat(samples[:1], 5, axis=0), atol=1e-5)


def test_masks_drop_the_share_they_say():
    """The outputs themselves, so that a dropped unit is a zero."""
    model = keras.Sequential([keras.Input((50,)), keras.layers.Dropout(0.3)])
    dropout = networks.compiled(MCDropout(model, "gaussian"))
    x = np.ones((1, 50), "float32")
    samples = dropout.predict_samples(x, num_samples=400, seed=0, verbose=0)[0]
    np.testing.assert_allclose(np.unique(samples), [0, 1 / 0.7], rtol=1e-5)
    dropped = samples == 0
    assert dropped.mean() == pytest.approx(0.3, abs=0.02)
    # Units and draws are independent: 20,000 coins, thrown one by one.
    assert dropped.mean(axis=0).std() < 0.04 and dropped.mean(axis=1).std() < 0.1
    assert len(np.unique(dropped, axis=0)) == 400


def test_layers_have_masks_of_their_own():
    inputs = keras.Input((30,))
    both = [keras.layers.Dropout(0.5)(inputs) for _ in range(2)]
    model = keras.Model(inputs, keras.layers.Concatenate()(both))
    dropout = networks.compiled(MCDropout(model, "gaussian"))
    samples = dropout.predict_samples(
        np.ones((1, 30), "float32"), num_samples=100, seed=0, verbose=0
    )[0]
    first, second = samples[:, :30].ravel(), samples[:, 30:].ravel()
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.1


def test_the_centre_of_dropout_is_ordinary_prediction():
    x, _ = networks.data(9)
    model = with_dropout()
    expected = tf.nn.softmax(model(x, training=False))
    dropout = networks.compiled(MCDropout(model))
    for _ in range(2):
        found = dropout.predict(x, num_samples=0, verbose=0)
        np.testing.assert_allclose(found, expected, atol=1e-6)
    np.testing.assert_allclose(dropout(x), model(x), atol=1e-6)


def test_dropout_copies_and_leaves_the_model_as_it_is():
    model = with_dropout()
    before = model.get_weights()
    dropout = networks.compiled(MCDropout(model))
    dropout.fit(*networks.data(8), verbose=0)
    assert not any(isinstance(layer, MonteCarloDropout) for layer in model.layers)
    for value, old in zip(model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(value, old)


def test_dropout_inside_nested_models_is_drawn():
    inputs = keras.Input((networks.NUM_FEATURES,))
    model = keras.Model(inputs, with_dropout()(inputs))
    dropout = networks.compiled(MCDropout(model))
    x, _ = networks.data(3)
    np.testing.assert_allclose(dropout(x), model(x), atol=1e-6)
    samples = dropout.predict_samples(x, num_samples=10, verbose=0)
    assert len(np.unique(samples[0], axis=0)) == 10


@pytest.mark.parametrize("is_nested", [False, True])
def test_dropout_keeps_what_a_network_without_shapes_has_learned(is_nested):
    """An adapted layer comes before the first batch, which builds the rest."""
    x, _ = networks.data(8)
    scaling = keras.layers.Normalization()
    scaling.adapt(x)
    seeded = keras.initializers.GlorotUniform(seed=1)
    model = keras.Sequential(
        [
            keras.Sequential([scaling]) if is_nested else scaling,
            keras.layers.Dropout(0.5),
            keras.layers.Dense(networks.NUM_CLASSES, kernel_initializer=seeded),
        ]
    )
    dropout = MCDropout(model)
    assert not model.built
    expected = tf.nn.softmax(model(x, training=False))
    found = dropout.predict(x, num_samples=0, verbose=0)
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_members_that_share_layers_are_named():
    inputs = keras.Input((networks.NUM_FEATURES,))
    body = keras.layers.Dense(4, name="body")
    heads = [keras.layers.Dense(2) for _ in range(2)]
    models = [keras.Model(inputs, head(body(inputs))) for head in heads]
    with pytest.warns(UserWarning, match="share the layers .'body'"):
        DeepEnsemble(models)


def test_dropout_trains_with_a_mask_for_each_row():
    """Training uses Keras's dropout; only predictions share their masks."""
    model = keras.Sequential([keras.Input((50,)), keras.layers.Dropout(0.5)])
    dropout = networks.compiled(MCDropout(model, "gaussian"))
    rows = keras.ops.convert_to_numpy(
        dropout(np.ones((8, 50), "float32"), training=True)
    )
    assert len(np.unique(rows, axis=0)) == 8


def test_networks_without_dropout_are_refused():
    with pytest.raises(ValueError, match="no dropout"):
        MCDropout(networks.plain())
    with pytest.raises(ValueError, match="at least one"):
        DeepEnsemble([])


@pytest.mark.slow
def test_a_regression():
    x, _ = networks.data(12)
    for make in (Deterministic, lambda net, lik: DeepEnsemble([net], lik)):
        model = make(
            keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)]),
            bhn_tf.likelihoods.Gaussian(trainable=True),
        )
        networks.compiled(model)
        before = float(model.likelihood.log_stddev)
        model.fit(x, x[:, 0], verbose=0)
        assert float(model.likelihood.log_stddev) != before
        lower, upper = model.predict_interval(x, verbose=0)
        assert lower.shape == (12, 1) and (lower < upper).all()


def test_dropout_without_monte_carlo_is_that_of_keras():
    """It drops units in training, and only scales in prediction."""
    x, _ = networks.data(200)
    network = keras.Sequential(
        [
            keras.Input((networks.NUM_FEATURES,)),
            keras.layers.Dropout(0.5),
            keras.layers.Dense(networks.NUM_CLASSES, kernel_initializer="ones"),
        ]
    )
    likelihood = bhn_tf.likelihoods.Categorical(from_logits=True)
    expected = keras.ops.softmax(network.predict(x, verbose=0))
    deterministic = Deterministic(network, likelihood)
    centre = MCDropout(network, likelihood)
    for answers in (
        deterministic.predict(x, verbose=0),
        deterministic.predict(x, num_samples=7, verbose=0),
        centre.predict(x, num_samples=0, verbose=0),
    ):
        np.testing.assert_allclose(answers, expected, rtol=1e-5)
    outputs = [deterministic(x, training=True) for _ in range(2)]
    assert np.abs(outputs[0] - outputs[1]).max() > 0.1


def beside_dropout(*layers):
    inputs = outputs = keras.Input((5, 4))
    for layer in layers:
        is_attention = isinstance(layer, keras.layers.MultiHeadAttention)
        outputs = layer(*[outputs] * (1 + is_attention))
    outputs = keras.layers.Dropout(0.5)(keras.layers.Flatten()(outputs))
    return keras.Model(inputs, keras.layers.Dense(networks.NUM_CLASSES)(outputs))


@pytest.mark.parametrize(
    "layer",
    [
        keras.layers.AlphaDropout(0.5, name="noise"),
        keras.layers.GaussianDropout(0.5, name="noise"),
        keras.layers.GaussianNoise(0.5, name="noise"),
        keras.layers.TimeDistributed(keras.layers.GaussianNoise(0.5), name="noise"),
        keras.layers.LSTM(3, dropout=0.5, name="noise"),
        keras.layers.GRU(3, recurrent_dropout=0.5, name="noise"),
        keras.layers.Bidirectional(keras.layers.LSTM(3, dropout=0.5), name="noise"),
        keras.layers.MultiHeadAttention(2, 3, dropout=0.5, name="noise"),
        type("OwnDropout", (keras.layers.Dropout,), {})(0.5, name="noise"),
    ],
    ids=lambda layer: type(layer).__name__,
)
def test_noise_that_predictions_lack_is_named(layer):
    with pytest.warns(UserWarning, match="'noise.*missing in the spread"):
        MCDropout(beside_dropout(layer))


def test_of_noise_that_is_drawn_or_not_there_nothing_is_said(recwarn):
    wrapped = keras.layers.TimeDistributed(MonteCarloDropout(0.5))
    MCDropout(
        beside_dropout(
            keras.layers.SpatialDropout1D(0.5),
            keras.layers.LSTM(3, return_sequences=True),
            keras.layers.MultiHeadAttention(2, 3),
            keras.layers.AlphaDropout(0.0),
            wrapped,
        )
    )
    assert not [each for each in recwarn if "spread" in str(each.message)]
    alone = keras.Sequential([keras.Input((5, 4)), wrapped, keras.layers.Flatten()])
    samples = networks.compiled(MCDropout(alone, "gaussian")).predict_samples(
        np.ones((1, 5, 4), "float32"), num_samples=5, verbose=0
    )
    assert len(np.unique(samples[0], axis=0)) > 1


@pytest.mark.parametrize("model", [None, 3, "network", [3]], ids=str)
@pytest.mark.parametrize("kind", [Deterministic, MCDropout, DeepEnsemble])
def test_what_is_no_network_is_refused(kind, model):
    with pytest.raises(TypeError, match=r"`models?(\[0\])?` to be a Keras model, got"):
        kind(model)


def test_an_ensemble_of_one_may_be_given_without_a_list():
    network = networks.sequential()
    assert DeepEnsemble(network).members == [network]
