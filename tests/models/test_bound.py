"""The objective is nll + kl_weight · KL / N, in the logs and in what is minimised."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import bhn_tf
from bhn_tf.layers import WeightNormDense
from bhn_tf.models.draws import Draws
from tests import networks

#: How a step runs, and batch sizes. Those below 65 leave a last batch of one row.
MODES = {
    "graph": ({"jit_compile": False}, [8, 64, 512]),
    "eager": ({"run_eagerly": True}, [64, 512]),
    "jit": ({"jit_compile": True}, [64]),
}


def regularized():
    return keras.Sequential(
        [
            keras.Input((networks.NUM_FEATURES,)),
            WeightNormDense(5, activation="relu", activity_regularizer="l2"),
            WeightNormDense(networks.NUM_CLASSES, kernel_regularizer="l2"),
        ]
    )


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ["mode", "steps_per_execution"],
    [("graph", 1), ("graph", 4), ("eager", 4), ("jit", 4)],
)
def test_identity(mode, steps_per_execution):
    x, y = networks.data(65)
    model = networks.bayesian(regularized())
    arguments, batch_sizes = MODES[mode]
    model.compile(
        "adam", kl_weight=0.25, steps_per_execution=steps_per_execution, **arguments
    )
    for batch_size in batch_sizes:
        history = model.fit(
            x,
            y,
            batch_size=batch_size,
            epochs=2,
            validation_data=(x[:9], y[:9]),
            verbose=0,
        ).history
        evaluated = model.evaluate(
            x, y, batch_size=batch_size, verbose=0, return_dict=True
        )
        networks.assert_identity(evaluated, 65)
        networks.assert_identity(history, 65)
        networks.assert_identity(history, 65, "val_")
        assert min(history["regularization"]) > 0 and min(history["loss"]) > 0.5


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "arguments",
    [{"train_samples": 3}, {"per_example_noise": True}, {"eval_samples": 0}],
    ids=str,
)
def test_identity_with_other_draws(arguments):
    x, y = networks.data(9)
    model = networks.bayesian(regularized(), "mean_field")
    model.compile("adam", run_eagerly=True, **arguments)
    history = model.fit(x, y, batch_size=4, validation_split=0.2, verbose=0).history
    networks.assert_identity(history, 7)
    networks.assert_identity(history, 7, "val_")


@pytest.fixture(scope="module")
def evaluated_model():
    x, y = networks.data(64)
    model = networks.compiled(networks.bayesian())
    model.fit(x, y, verbose=0)
    return model


@pytest.mark.slow
def test_terms_of_the_bound(evaluated_model):
    """`evaluate` logs what public draws and densities give by hand."""
    model = evaluated_model
    x, y = networks.data(64)
    for num_samples in (0, 1, 5):
        logs = model.evaluate(
            x, y, verbose=0, num_samples=num_samples, seed=3, return_dict=True
        )
        samples = model.predict_samples(x, num_samples=num_samples, seed=3, verbose=0)
        if num_samples:
            scales = model.sample_scales(num_samples, seed=3)
        else:
            scales = model.hypernet.center()[None]
        likely = samples[np.arange(64), :, y]
        density = model.hypernet.distribution.log_prob(scales)
        kl = tf.reduce_mean(density - model.prior.log_prob(scales))
        np.testing.assert_allclose(logs["nll"], -np.log(likely).mean(), rtol=1e-5)
        np.testing.assert_allclose(
            logs["predictive_nll"], -np.log(likely.mean(axis=1)).mean(), rtol=1e-5
        )
        np.testing.assert_allclose(logs["kl"], kl, rtol=1e-4)
        networks.assert_identity(logs, 64)


def test_evaluation_does_not_depend_on_batches(evaluated_model):
    x, y = networks.data(65)
    logs = [
        evaluated_model.evaluate(
            x, y, batch_size=size, seed=1, verbose=0, return_dict=True
        )
        for size in (1, 8, 64, 512)
    ]
    for other in logs[1:]:
        assert other.keys() == logs[0].keys()
        for name, value in other.items():
            np.testing.assert_allclose(value, logs[0][name], rtol=1e-5)


def test_share_of_the_kl_follows_num_examples(evaluated_model):
    """Under a huge weight the loss is the share itself, so that ratios are exact."""
    model = evaluated_model
    x, y = networks.data(64)
    model.kl_weight = 1e9

    def share(num_examples):
        model.num_examples = num_examples
        logs = model.evaluate(x, y, seed=0, verbose=0, return_dict=True)
        return logs["loss"] - logs["nll"]

    try:
        assert share(512) == pytest.approx(2 * share(1024), rel=1e-6)
        assert share(512) == pytest.approx(share(256) / 2, rel=1e-6)
    finally:
        model.kl_weight = 1.0


@pytest.mark.parametrize("per_example_noise", [False, True, 4, 8])
def test_step_follows_the_gradient_of_the_bound(per_example_noise):
    """One step of SGD equals the gradient of the objective written out by hand."""
    x, y = networks.data(6)
    model = networks.bayesian(regularized(), num_examples=100, seed=5)
    model.compile(
        keras.optimizers.SGD(0.5),
        kl_weight=0.3,
        train_samples=2,
        per_example_noise=per_example_noise,
        run_eagerly=True,
    )
    seed = model.noise.next_seed()
    model.noise.state.assign([5, 0])
    # Draws of a batch, and the one that each row has.
    num_draws = {False: 1, True: 6}.get(per_example_noise, per_example_noise)
    draw_of_row = np.arange(6) % num_draws
    with tf.GradientTape() as tape:
        scales, log_prob = model.hypernet.sample_and_log_prob(2 * num_draws, seed)
        kl = tf.reshape(log_prob - model.prior.log_prob(scales), [2, num_draws])
        loss = 0.3 * tf.reduce_mean(tf.gather(kl, draw_of_row, axis=1)) / 100
        scales = tf.reshape(scales, [2, num_draws, model.num_random])
        for draw in scales:
            of_rows = tf.gather(draw, draw_of_row) if per_example_noise else draw[0]
            raw = model(x, scales=of_rows, training=True)
            nll = tf.nn.sparse_softmax_cross_entropy_with_logits(y, raw)
            loss += (tf.reduce_mean(nll) + tf.add_n(model.primary.losses)) / 2
    gradients = tape.gradient(loss, model.trainable_variables)
    expected = [
        variable - 0.5 * gradient
        for variable, gradient in zip(model.trainable_variables, gradients, strict=True)
    ]
    logs = model.train_on_batch(x, y, return_dict=True)
    assert logs["loss"] == pytest.approx(float(loss), rel=1e-5)
    for variable, value in zip(model.trainable_variables, expected, strict=True):
        np.testing.assert_allclose(variable, value, atol=1e-6)


@pytest.mark.few(1)
@pytest.mark.parametrize("num_random", [1, 2, 3, 10])
@pytest.mark.parametrize("name", ["MeanField", "RealNVP", "IAF"])
def test_every_weight_of_the_hypernet_trains(name, num_random):
    arguments = {} if name == "MeanField" else {"num_layers": 2, "hidden_units": (8,)}
    hypernet = getattr(bhn_tf.hypernets, name)(**arguments)
    x, _ = networks.data(16)
    primary = keras.Sequential(
        [keras.Input((networks.NUM_FEATURES,)), WeightNormDense(num_random)]
    )
    model = bhn_tf.BayesianHypernet(primary, hypernet, "gaussian")
    model.compile("adam", run_eagerly=True)
    before = networks.weights_of(hypernet)
    model.fit(
        x, np.repeat(x[:, :1], num_random, axis=1), batch_size=4, epochs=2, verbose=0
    )
    assert model.num_random == num_random and len(before) >= 2
    for variable, value in zip(hypernet.weights, before, strict=True):
        assert not np.array_equal(variable, value), variable.path


def test_kl_counts_every_layer_once_however_nested():
    """At the centre of a fresh mean field the KL is known in closed form."""
    x, y = networks.data(8)
    per_value = -np.log(0.1) + 0.5
    for make in networks.PRIMARIES.values():
        model = networks.bayesian(
            make(scale_initializer="ones"), "mean_field", num_examples=8
        )
        for _ in range(2):
            model.compile("sgd", eval_samples=0, run_eagerly=True)
            model(x)
            logs = model.evaluate(x, y, verbose=0, return_dict=True)
            assert logs["kl"] == pytest.approx(8 * per_value, rel=1e-5)


def test_epochs_do_not_remember_each_other():
    """Three epochs of a network that does not change log the same values."""
    x, y = networks.data(65)
    model = bhn_tf.BayesianHypernet(networks.plain())
    model.compile(keras.optimizers.SGD(0.0), metrics=["accuracy"], jit_compile=False)
    history = model.fit(x, y, batch_size=8, epochs=3, verbose=0).history
    evaluated = model.evaluate(x, y, batch_size=7, verbose=0, return_dict=True)
    assert history["kl"] == [0.0] * 3
    for name in ("loss", "nll", "accuracy"):
        np.testing.assert_allclose(history[name], [evaluated[name]] * 3, rtol=1e-5)


def test_steps_per_execution_changes_nothing():
    x, y = networks.data(65)
    results = []
    for steps in (1, 4, 64):
        keras.utils.set_random_seed(1)
        model = bhn_tf.BayesianHypernet(networks.plain())
        model.compile("adam", jit_compile=False, steps_per_execution=steps)
        history = model.fit(
            x, y, batch_size=8, verbose=0, shuffle=False, validation_split=0.1
        ).history
        assert int(model.optimizer.iterations) == 8
        results.append(history)
    for other in results[1:]:
        for name, value in other.items():
            np.testing.assert_allclose(value, results[0][name], rtol=1e-5)


@pytest.mark.slow
def test_early_stopping_on_predictive_nll():
    x, y = networks.data(20)
    model = networks.bayesian(hypernet="mean_field")
    model.compile(keras.optimizers.SGD(3.0), run_eagerly=True)
    stopping = keras.callbacks.EarlyStopping(
        "val_predictive_nll", mode="min", patience=2, restore_best_weights=True
    )
    history = model.fit(
        x, y, epochs=30, validation_data=(x, y), callbacks=[stopping], verbose=0
    ).history["val_predictive_nll"]
    assert len(history) == stopping.stopped_epoch + 1 < 30
    assert stopping.best == min(history)


@pytest.mark.slow
@pytest.mark.parametrize("num_draws", [1, 3])
def test_a_norm_that_is_held_is_held_with_several_draws_a_step(num_draws):
    """Spectral normalisation divides a kernel that is trained, too."""
    x, y = networks.data(32)
    keras.utils.set_random_seed(3)
    held = keras.layers.SpectralNormalization(keras.layers.Dense(6), power_iterations=3)
    network = keras.Sequential(
        [keras.Input((networks.NUM_FEATURES,)), held, bhn_tf.layers.WeightNormDense(3)]
    )
    model = bhn_tf.BayesianHypernet(network, "mean_field")
    adam = keras.optimizers.Adam(0.05)
    model.compile(adam, train_samples=num_draws, jit_compile=False)
    model.fit(x, y, epochs=20, batch_size=8, verbose=0)
    # The last step's own change comes after the division.
    assert np.linalg.norm(held.layer.kernel, 2) == pytest.approx(1.0, abs=0.2)


def test_an_estimate_has_the_standard_error_of_a_mean():
    bound = networks.bayesian(hypernet="mean_field", num_examples=1).objective
    values = np.random.default_rng(0).normal(size=(4, 6)).astype("float32")
    draws = Draws(tf.zeros([6, 0]), tf.range(6.0))
    # Without generated values there is no log q and no log p.
    bound.set_values([], [], [])
    found = bound.estimate(values, draws)
    sums = values.sum(axis=0, dtype="float64")
    assert found.mean == pytest.approx(sums.mean())
    assert found.standard_error == pytest.approx(sums.std(ddof=1) / np.sqrt(6))
    only = Draws(tf.zeros([1, 0]), tf.zeros([1]))
    assert bound.estimate(values[:, :1], only) == (pytest.approx(sums[0]), 0.0)


def test_before_compile_the_objective_is_the_bound():
    """What `diagnose` judges of a model that was only loaded."""
    objective = networks.bayesian(hypernet="mean_field").objective
    assert objective.kl_weight == objective.settled_kl_weight == 1.0
    assert objective.loss_weights == [1.0]
