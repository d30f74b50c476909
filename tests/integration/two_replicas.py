"""Checks under two replicas; as a script, runs those named and prints what failed.

`two_replicas.py DIRECTORY [CHECK ...]`; without names, all that are not slow.

It needs its own process, since devices are split before TensorFlow starts.
"""

import json
import sys
import traceback
import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

import bhn_tf
from tests import networks

CHECKS, SLOW_CHECKS = {}, {}


def check(function):
    CHECKS[function.__name__] = function
    return function


def slow_check(function):
    SLOW_CHECKS[function.__name__] = function
    return function


def two_replicas():
    return replicas(2)


def replicas(number):
    return tf.distribute.MirroredStrategy(
        [f"CPU:{index}" for index in range(number)],
        cross_device_ops=tf.distribute.ReductionToOneDevice(),
    )


def one_device():
    return tf.distribute.get_strategy()


def assert_same(found, expected):
    assert found.keys() == expected.keys(), (found.keys(), expected.keys())
    for name, value in expected.items():
        np.testing.assert_allclose(
            found[name], value, rtol=1e-5, atol=1e-6, err_msg=name
        )


def regularized():
    layer = keras.layers.Dense(networks.NUM_CLASSES, kernel_regularizer="l2")
    return keras.Sequential([keras.Input((networks.NUM_FEATURES,)), layer])


def plain_model(strategy, primary=networks.plain):
    with strategy.scope():
        keras.utils.set_random_seed(1)
        model = bhn_tf.BayesianHypernet(primary())
        model.compile(
            keras.optimizers.Adam(0.05),
            metrics=["accuracy", bhn_tf.metrics.BrierScore()],
            weighted_metrics=["accuracy"],
            jit_compile=False,
        )
    return model


def noisy_model(strategy, make_optimizer=keras.optimizers.Adam, **kwargs):
    with strategy.scope():
        keras.utils.set_random_seed(1)
        model = networks.bayesian(hypernet="mean_field", num_examples=13)
        model.compile(make_optimizer(), jit_compile=False, **kwargs)
    return model


def results_without_noise(strategy, batch_size):
    model = plain_model(strategy)
    x, y = networks.data(13)
    weights = np.linspace(0, 2, 13).astype("float32")
    arguments = {"batch_size": batch_size, "verbose": 0}
    logs = model.fit(
        x,
        y,
        sample_weight=weights,
        epochs=2,
        shuffle=False,
        validation_data=(x[:5], y[:5]),
        **arguments,
    ).history
    evaluated = model.evaluate(
        x, y, sample_weight=weights, return_dict=True, **arguments
    )
    return {
        **logs,
        **{f"evaluated {name}": value for name, value in evaluated.items()},
        **{f"weight {i}": w for i, w in enumerate(networks.weights_of(model.primary))},
        "predicted": model.predict(x, **arguments),
        "predicted on batch": model.predict_on_batch(x),
        "steps": keras.ops.convert_to_numpy(model.optimizer.iterations),
        "num_examples": model.num_examples,
    }


@check
def equals_one_device_where_batches_do_not_divide():
    found = results_without_noise(two_replicas(), 5)
    assert_same(found, results_without_noise(one_device(), 5))
    assert found["steps"] == 6 and found["num_examples"] == 13


@check
def equals_one_device_where_batches_are_smaller_than_replicas():
    """Batches of one row, so that one of the replicas has none."""
    found = results_without_noise(two_replicas(), 1)
    assert_same(found, results_without_noise(one_device(), 1))
    assert found["steps"] == 26


@check
def takes_data_sets():
    def results(strategy):
        model = plain_model(strategy)
        rows = tf.data.Dataset.from_tensor_slices(networks.data(13))
        logs = model.fit(
            rows.batch(5), validation_data=rows.batch(3), verbose=0
        ).history
        return {**logs, "predicted": model.predict(rows.batch(5), verbose=0)}

    assert_same(results(two_replicas()), results(one_device()))


@check
def takes_data_sets_that_are_distributed():
    """Data sets of a strategy, also made by a function for each worker."""

    def results(strategy, distributed):
        model = plain_model(strategy)
        model.num_examples = 12
        rows = tf.data.Dataset.from_tensor_slices(networks.data(12))
        logs = model.fit(
            distributed(rows), validation_data=distributed(rows), verbose=0
        ).history
        tested = model.evaluate(distributed(rows), verbose=0, return_dict=True)
        predicted = model.predict(distributed(rows), verbose=0)
        return {**logs, **tested, "predicted": predicted}

    expected = results(one_device(), lambda rows: rows.batch(6))
    two = two_replicas()
    for distributed in (
        lambda rows: two.experimental_distribute_dataset(rows.batch(6)),
        lambda rows: two.distribute_datasets_from_function(lambda _: rows.batch(3)),
    ):
        with warnings.catch_warnings():
            # Keras does not know how many batches a function makes.
            warnings.filterwarnings("ignore", "Your input ran out of data")
            assert_same(results(two, distributed), expected)


@check
def on_batch_calls_equal_one_device():
    """With regularization, which counts once and not for each replica."""

    def results(strategy):
        model = plain_model(strategy, regularized)
        x, y = networks.data(5)
        logs = model.train_on_batch(x, y, return_dict=True)
        tested = model.test_on_batch(x, y, return_dict=True)
        return {**logs, **{f"tested {name}": v for name, v in tested.items()}}

    found, expected = results(two_replicas()), results(one_device())
    assert found["regularization"] > 0
    for name in ("loss", "nll", "tested loss", "tested predictive_nll"):
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-5)


@check
def identity_holds():
    identity_holds_with(per_example_noise=2)


@slow_check
def identity_holds_with_every_noise():
    identity_holds_with(train_samples=2)
    identity_holds_with(per_example_noise=True)


def identity_holds_with(**arguments):
    x, y = networks.data(13)
    model = noisy_model(two_replicas(), **arguments)
    # Batches of 6, 6 and 1, which leaves a replica without rows.
    logs = model.fit(
        x, y, batch_size=6, epochs=2, validation_data=(x[:3], y[:3]), verbose=0
    ).history
    assert np.isfinite(list(logs.values())).all(), logs
    networks.assert_identity(logs, 13)
    networks.assert_identity(logs, 13, "val_")
    assert all(np.isfinite(value).all() for value in networks.weights_of(model))


@check
def every_layer_steps_as_on_one_device():
    """With all that can be generated at once: scales of both sides, and biases."""
    steps_as_on_one_device("rank_one")


@slow_check
def every_layer_and_mode_steps_as_on_one_device():
    for mode in bhn_tf.layers.WeightNormDense.GENERATED:
        steps_as_on_one_device(mode)


def steps_as_on_one_device(mode):
    """With almost no noise, since that differs between replicas."""
    random = np.random.default_rng(0)
    x = random.normal(size=(13, 128)).astype("float32")
    y = random.integers(0, networks.NUM_CLASSES, 13)

    def results(strategy):
        with strategy.scope():
            keras.utils.set_random_seed(1)
            hypernet = bhn_tf.hypernets.MeanField(initial_stddev=1e-7)
            model = networks.bayesian(networks.every_layer(mode), hypernet)
            model.compile(keras.optimizers.SGD(0.01), jit_compile=False)
        arguments = {"batch_size": 5, "shuffle": False, "verbose": 0}
        logs = model.fit(x, y, **arguments).history
        weights = enumerate(networks.weights_of(model.primary))
        return {
            "nll": logs["nll"],
            "mean": keras.ops.convert_to_numpy(model.hypernet.center())
            if model.num_random
            else 0.0,
            **{f"weight {i}": value for i, value in weights},
        }

    assert_same(results(two_replicas()), results(one_device()))


@check
def replicas_stay_equal():
    """And one seed reproduces a run."""
    strategy = two_replicas()
    runs = []
    for _ in range(2):
        model = noisy_model(strategy)
        runs.append(model.fit(*networks.data(13), batch_size=5, verbose=0).history)
    assert_same(*runs)
    for variable in model.weights:
        first, second = strategy.experimental_local_results(variable.value)
        np.testing.assert_array_equal(first.numpy(), second.numpy(), variable.path)


@check
def every_replica_has_its_own_noise():
    strategy = two_replicas()
    model = noisy_model(strategy)
    x = tf.constant(networks.data(4)[0])

    @tf.function
    def outputs():
        return strategy.run(lambda: model(x))

    seen = []
    for _ in range(2):
        seen += strategy.experimental_local_results(outputs())
    for i in range(4):
        for j in range(i):
            assert not np.allclose(seen[i], seen[j])


def averaging():
    return keras.optimizers.Adam(0.05, use_ema=True, ema_momentum=0.5)


def results_of_shared_noise(strategy, **kwargs):
    model = noisy_model(strategy, same_noise_on_replicas=True, **kwargs)
    logs = model.fit(
        *networks.data(13), batch_size=6, epochs=2, shuffle=False, verbose=0
    ).history
    weights = enumerate(networks.weights_of(model))
    return {**logs, **{f"weight {i}": value for i, value in weights}}


@check
def the_same_noise_on_request_is_one_devices():
    """On four replicas, some without rows of the last batch."""
    kwargs = {"make_optimizer": averaging, "steps_per_execution": 2}
    found = results_of_shared_noise(replicas(4), **kwargs)
    assert_same(found, results_of_shared_noise(one_device(), **kwargs))


@slow_check
def the_same_noise_in_single_steps_is_one_devices():
    for kwargs in ({}, {"make_optimizer": averaging}):
        found = results_of_shared_noise(replicas(4), **kwargs)
        assert_same(found, results_of_shared_noise(one_device(), **kwargs))
        assert_same(results_of_shared_noise(two_replicas(), **kwargs), found)


@check
def gradients_are_clipped_as_on_one_device():
    """Keras clips what each replica has, before it sums; one may have no rows."""

    def clipping():
        return keras.optimizers.SGD(0.5, global_clipnorm=0.05)

    found, expected = (
        results_of_shared_noise(strategy, make_optimizer=clipping)
        for strategy in (two_replicas(), one_device())
    )
    assert_same(found, expected)


@check
def an_infinity_of_any_replica_stays_out_of_the_weights():
    """Loss scaling looks at the gradients of the first replica alone."""
    x, y = networks.data(4)
    # Too much for half precision, on the second replica.
    x[2:] *= 1e3
    keras.config.set_dtype_policy("mixed_float16")
    try:
        model = plain_model(two_replicas())
    finally:
        keras.config.set_dtype_policy("float32")
    before = networks.weights_of(model.primary)
    model.fit(x, y, batch_size=4, shuffle=False, verbose=0)
    after = networks.weights_of(model.primary)
    for value, other in zip(after, before, strict=True):
        np.testing.assert_array_equal(value, other)


@slow_check
def half_precision_is_one_devices():
    for policy in ("mixed_bfloat16", "mixed_float16"):
        keras.config.set_dtype_policy(policy)
        try:
            found = results_of_shared_noise(two_replicas())
            expected = results_of_shared_noise(one_device())
        finally:
            keras.config.set_dtype_policy("float32")
        for name in ("loss", "nll", "kl"):
            np.testing.assert_allclose(found[name], expected[name], rtol=2e-2)


@check
def four_replicas_equal_one_device():
    found = results_without_noise(replicas(4), 6)
    assert_same(found, results_without_noise(one_device(), 6))
    assert found["steps"] == 6 and found["num_examples"] == 13


@check
def draws_of_a_seed_are_those_of_one_device():
    x, y = networks.data(13)
    two, one = noisy_model(two_replicas()), noisy_model(one_device())
    two.fit(x, y, batch_size=5, verbose=0)
    one.set_weights([keras.ops.convert_to_numpy(v) for v in two.weights])
    arguments = {"batch_size": 5, "num_samples": 4, "seed": 3, "verbose": 0}
    for call in ("predict", "predict_samples"):
        np.testing.assert_allclose(
            getattr(two, call)(x, **arguments),
            getattr(one, call)(x, **arguments),
            atol=1e-5,
        )
    found = two.predict_uncertainty(x, **arguments)
    assert_same(found, one.predict_uncertainty(x, **arguments))
    found = two.evaluate(x, y, return_dict=True, **arguments)
    assert_same(found, one.evaluate(x, y, return_dict=True, **arguments))


@check
def loads_on_one_device():
    model = noisy_model(two_replicas(), metrics=["accuracy"])
    x, y = networks.data(13)
    model.fit(x, y, batch_size=5, verbose=0)
    path = sys.argv[1] + "/replicas.keras"
    model.save(path)
    again = keras.saving.load_model(path)
    for value, wanted in zip(
        networks.weights_of(again), networks.weights_of(model), strict=True
    ):
        np.testing.assert_array_equal(value, wanted)
    again.fit(x, y, batch_size=5, verbose=0)


@check
def what_cannot_work_is_refused():
    x, y = networks.data(8)
    made_outside = networks.compiled(networks.bayesian(num_examples=8))
    accumulating = keras.optimizers.Adam(gradient_accumulation_steps=2)
    overwriting = keras.optimizers.Adam(use_ema=True, ema_overwrite_frequency=2)
    with two_replicas().scope():
        model = networks.bayesian()
        for words, call in {
            "jit_compile": lambda: model.compile("adam", jit_compile=True),
            "gradient_accumulation": lambda: model.compile(accumulating),
            "ema_overwrite_frequency": lambda: model.compile(overwriting),
            "with strategy.scope": lambda: made_outside.fit(x, y, verbose=0),
            "made outside": lambda: made_outside.evaluate(x, y, verbose=0),
            "outside of": lambda: made_outside.predict(x, verbose=0),
        }.items():
            with pytest.raises(ValueError, match=words):
                call()
    made_outside.fit(x, y, verbose=0)


@check
def baselines_equal_one_device():
    def results(strategy):
        with strategy.scope():
            keras.utils.set_random_seed(1)
            members = [networks.plain(), networks.plain()]
            model = bhn_tf.baselines.DeepEnsemble(members)
            model.compile("adam", metrics=["accuracy"], jit_compile=False)
        x, y = networks.data(13)
        logs = model.fit(x, y, batch_size=6, shuffle=False, verbose=0).history
        return {**logs, "predicted": model.predict(x, batch_size=6, verbose=0)}

    assert_same(results(two_replicas()), results(one_device()))


class Watched(keras.layers.Layer):
    """Reports the mean of its inputs."""

    def __init__(self):
        super().__init__()
        self.seen = keras.metrics.Mean("seen")

    def call(self, inputs):
        self.seen.update_state(keras.ops.mean(inputs))
        return inputs


@check
def statistics_of_a_replica_without_rows_stay_as_they_were():
    """Moving averages, and metrics of layers, also over two draws and of members."""
    x, y = networks.data(13)
    # The last batch has one row.
    parts = [x[start : start + 2] for start in range(0, 13, 2)]
    seen = np.mean([part.mean() for part in parts])

    def primary(layer):
        return keras.Sequential(
            [
                keras.Input((networks.NUM_FEATURES,)),
                Watched(),
                layer(momentum=0.5),
                bhn_tf.layers.WeightNormDense(networks.NUM_CLASSES),
            ]
        )

    def by_hypernet(**kwargs):
        network = primary(keras.layers.BatchNormalization)
        model = networks.bayesian(network, "mean_field", num_examples=13)
        return model, [network], kwargs

    def by_members():
        members = [primary(bhn_tf.layers.BatchNormalization) for _ in range(2)]
        return bhn_tf.baselines.DeepEnsemble(members), members, {}

    strategy = two_replicas()
    for make in (by_hypernet, lambda: by_hypernet(train_samples=2), by_members):
        with strategy.scope():
            model, trained, kwargs = make()
            model.compile(keras.optimizers.SGD(0.01), jit_compile=False, **kwargs)

        def statistics(trained=trained):
            variables = [v for each in trained for v in each.layers[1].variables]
            return [
                each.numpy()
                for variable in variables
                for each in strategy.experimental_local_results(variable.value)
            ]

        before = statistics()
        arguments = {"batch_size": 4, "verbose": 0}
        logs = model.fit(x, y, shuffle=False, **arguments).history
        np.testing.assert_allclose(logs["seen"], seen, rtol=1e-5)
        after = statistics()
        tested = model.evaluate(x, y, return_dict=True, **arguments)
        np.testing.assert_allclose(tested["seen"], seen, rtol=1e-5)
        assert np.isfinite([*tested.values()]).all(), tested
        assert np.isfinite(model.predict(x, **arguments)).all()
        np.testing.assert_equal(statistics(), after)
        # The averages of the second replica, which lacks rows of the last batch.
        mean, expected = after[-3], before[-3]
        for part in parts[1::2]:
            expected = (expected + part.mean(axis=0)) / 2
        np.testing.assert_allclose(mean, expected, rtol=1e-5)


@check
def synchronized_batch_normalisation_equals_one_device():
    """Without `synchronized=True` each replica has moving statistics of its own."""

    def network():
        return keras.Sequential(
            [
                keras.Input((networks.NUM_FEATURES,)),
                keras.layers.Dense(5, use_bias=False),
                bhn_tf.layers.BatchNormalization(
                    random="none", momentum=0.5, synchronized=True
                ),
                keras.layers.Dense(networks.NUM_CLASSES),
            ]
        )

    def results(strategy):
        model = plain_model(strategy, network)
        x, y = networks.data(13)
        # The last batch has one row, so that one of the replicas has none.
        model.fit(x, y, batch_size=4, shuffle=False, verbose=0)
        same = np.repeat(x[:1], 4, axis=0)
        predicted = model.predict(same, batch_size=4, verbose=0)
        np.testing.assert_allclose(predicted, predicted[:1].repeat(4, axis=0), 1e-6)
        return {"predicted": predicted}

    assert_same(results(two_replicas()), results(one_device()))
    with two_replicas().scope():
        model = networks.bayesian(network(), "mean_field")
        model.compile("sgd", train_samples=2)
        with pytest.raises(ValueError, match="synchronized=True.*train_samples=1`"):
            model.fit(*networks.data(4), verbose=0)
        model.compile("sgd", train_samples=1)
    model.fit(*networks.data(4), verbose=0)


@check
def a_strategy_of_one_device_is_no_strategy():
    def results(strategy):
        model = noisy_model(strategy, metrics=["accuracy"])
        logs = model.fit(*networks.data(13), batch_size=5, verbose=0).history
        return {**logs, "scales": model.sample_scales(2, seed=1)}

    found = results(tf.distribute.OneDeviceStrategy("CPU:0"))
    assert_same(found, results(one_device()))


def main(names):
    cpu = tf.config.list_physical_devices("CPU")[0]
    quarter = tf.config.LogicalDeviceConfiguration()
    tf.config.set_logical_device_configuration(cpu, [quarter] * 4)
    failures = {}
    for name in names:
        try:
            (CHECKS | SLOW_CHECKS)[name]()
        except Exception:
            failures[name] = traceback.format_exc()
    print("\n" + json.dumps({"ran": names, "failures": failures}))


if __name__ == "__main__":
    main(sys.argv[2:] or list(CHECKS))
