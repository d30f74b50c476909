"""The metrics inside compiled models: training, saving, policies, replicas."""

import os
import pathlib
import subprocess
import sys
import textwrap

import keras
import numpy as np
import pytest

from bhn_tf import metrics
from bhn_tf.metrics import BrierScore, ExpectedCalibrationError, NegativeLogLikelihood

METRICS = [ExpectedCalibrationError, BrierScore, NegativeLogLikelihood]
NAMES = ["expected_calibration_error", "brier_score", "negative_log_likelihood"]


def data(num_rows=50, num_classes=3):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(num_rows, 5)).astype("float32")
    return x, rng.integers(0, num_classes, num_rows)


def classifier(units=3, **kwargs):
    model = keras.Sequential(
        [keras.Input([5]), keras.layers.Dense(units, activation="softmax")]
    )
    model.compile(loss="sparse_categorical_crossentropy", **kwargs)
    return model


def measured(metric, *args):
    metric.update_state(*args)
    return float(metric.result())


@pytest.mark.parametrize("metric_class", METRICS)
def test_serialisation(metric_class):
    metric = metric_class(name="mine", dtype="float32")
    config = keras.saving.serialize_keras_object(metric)
    assert config["registered_name"] == f"bhn_tf>{metric_class.__name__}"
    again = keras.saving.deserialize_keras_object(config)
    assert type(again) is metric_class and again.get_config() == metric.get_config()
    assert metric_class().name in NAMES
    assert ExpectedCalibrationError(7).get_config()["num_bins"] == 7


# Each metric, with its value for one target and prediction.
OF_TARGETS = [
    (metrics.IntervalCoverage, lambda y, p: metrics.coverage(y, *p)),
    (metrics.IntervalWidth, lambda y, p: metrics.mean_width(*p)),
    (
        lambda **k: metrics.IntervalScore(0.8, **k),
        lambda y, p: metrics.interval_score(y, *p, 0.8),
    ),
    (metrics.CRPS, lambda y, p: metrics.crps(y, *p)),
    (
        lambda **k: metrics.SetSize(0.3, **k),
        lambda y, p: metrics.set_size(np.transpose(p) >= 0.3),
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ["num_targets", "each"], [(1, ()), (1, (1,)), (3, ()), (3, (1,)), (3, (3,))]
)
def test_weighted_means_of_targets(num_targets, each):
    x, _ = data()
    y = x[:, :num_targets]
    weights = np.random.default_rng(1).uniform(size=(50, *each)).astype("float32")
    weights[::5] = 0.0
    shape = (2,) if num_targets == 1 else (num_targets, 2)
    model = keras.Sequential(
        [
            keras.Input([5]),
            keras.layers.Dense(2 * num_targets),
            keras.layers.Reshape(shape),
        ]
    )
    plain = [make(name=f"{i}") for i, (make, _) in enumerate(OF_TARGETS)]
    weighted = [make(name=f"w{i}") for i, (make, _) in enumerate(OF_TARGETS)]
    loss = keras.losses.MeanSquaredError()
    model.compile(
        "sgd",
        lambda y, p: loss(y, p[..., 0]),
        metrics=plain,
        weighted_metrics=weighted,
    )
    model.fit(x, y, sample_weight=weights[:, 0] if each else weights, verbose=0)
    found = model.evaluate(
        x, y, sample_weight=weights, batch_size=20, verbose=0, return_dict=True
    )
    p = model.predict(x, verbose=0).reshape(50, num_targets, 2)
    weights = np.broadcast_to(weights.reshape(50, -1), y.shape)
    for i, (_, of_one) in enumerate(OF_TARGETS):
        values = np.array(
            [
                [of_one(y[b, [c]], p[b, [c]].T) for c in range(num_targets)]
                for b in range(50)
            ]
        )
        assert found[f"{i}"] == pytest.approx(values.mean(), rel=1e-4)
        assert found[f"w{i}"] == pytest.approx(
            np.average(values, weights=weights), rel=1e-4
        )


@pytest.mark.few(1)
@pytest.mark.parametrize("jit_compile", [False, True])
def test_fit_and_evaluate(jit_compile):
    x, y = data()
    weights = np.linspace(0, 1, 50).astype("float32")
    pairs = list(zip(METRICS, NAMES, strict=True))
    model = classifier(
        metrics=[metric_class() for metric_class in METRICS],
        weighted_metrics=[
            metric_class(name="w_" + name) for metric_class, name in pairs
        ],
        jit_compile=jit_compile,
    )
    history = model.fit(
        x, y, sample_weight=weights, batch_size=16, verbose=0, validation_split=0.2
    ).history
    logs = model.evaluate(
        x, y, sample_weight=weights, batch_size=16, verbose=0, return_dict=True
    )
    p = model.predict(x, verbose=0)
    for metric_class, name in pairs:
        assert np.all(np.isfinite(history["val_w_" + name]))
        plain = measured(metric_class(), y, p)
        weighted = measured(metric_class(), y, p, weights)
        np.testing.assert_allclose(logs[name], plain, atol=1e-5)
        np.testing.assert_allclose(logs["w_" + name], weighted, atol=1e-5)


def test_masked_tokens_do_not_count():
    tokens = np.array([[1, 2, 3, 0], [4, 0, 0, 0]])
    labels = np.where(tokens > 0, tokens % 3, -1)
    model = keras.Sequential(
        [
            keras.layers.Embedding(5, 4, mask_zero=True),
            keras.layers.Dense(3, activation="softmax"),
        ]
    )
    p, kept = model.predict(tokens, verbose=0), tokens > 0
    for metric_class in METRICS:
        np.testing.assert_allclose(
            measured(metric_class(), labels, model(tokens)),
            measured(metric_class(), labels[kept], p[kept]),
            atol=1e-6,
        )


# Keras 3.15 reads its own variables so that NumPy 2.4 warns.
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
def test_saved_model_keeps_its_metrics(tmp_path):
    x, y = data()
    model = classifier(metrics=[ExpectedCalibrationError(7), NegativeLogLikelihood()])
    model.fit(x, y, verbose=0)
    expected = model.evaluate(x, y, verbose=0)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(again.evaluate(x, y, verbose=0), expected, rtol=1e-5)


@pytest.mark.slow
def test_early_stopping_knows_the_direction():
    x, y = data()
    model = classifier(metrics=[ExpectedCalibrationError()], optimizer="sgd")
    stopping = keras.callbacks.EarlyStopping("val_expected_calibration_error")
    model.fit(x, y, validation_split=0.5, callbacks=[stopping], verbose=0)
    assert stopping.monitor_op(1, 2) and not stopping.monitor_op(2, 1)


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16", "float16"])
def test_state_is_float32_under_any_policy(policy):
    x, y = data()
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(policy)
    try:
        made = [metric_class() for metric_class in METRICS]
        model = classifier(metrics=made)
        logs = model.evaluate(x, y, verbose=0, return_dict=True)
        assert keras.backend.standardize_dtype(model(x).dtype) != "float32"
    finally:
        keras.config.set_dtype_policy(before)
    made += [metric_class(dtype=policy) for metric_class in METRICS]
    assert all(v.dtype == "float32" for metric in made for v in metric.variables)
    assert np.all(np.isfinite(list(logs.values())))


@pytest.mark.slow
def test_two_replicas_equal_one():
    """In its own process, since devices are split before TensorFlow starts."""
    script = """
    import keras, numpy as np, tensorflow as tf
    from bhn_tf.metrics import (
        BrierScore, ExpectedCalibrationError, NegativeLogLikelihood
    )
    cpu = tf.config.list_physical_devices("CPU")[0]
    half = tf.config.LogicalDeviceConfiguration()
    tf.config.set_logical_device_configuration(cpu, [half, half])
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(50, 5)).astype("float32"), rng.integers(0, 3, 50)
    def logs(strategy):
        with strategy.scope():
            keras.utils.set_random_seed(0)
            dense = keras.layers.Dense(3, activation="softmax")
            model = keras.Sequential([keras.Input([5]), dense])
            model.compile(
                loss="sparse_categorical_crossentropy",
                metrics=[
                    BrierScore(), ExpectedCalibrationError(), NegativeLogLikelihood()
                ],
                jit_compile=False,
            )
            model.fit(x, y, batch_size=10, epochs=2, verbose=0)
        return model.evaluate(x, y, batch_size=10, verbose=0)
    two = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    assert two.num_replicas_in_sync == 2
    one = logs(tf.distribute.get_strategy())
    np.testing.assert_allclose(logs(two), one, atol=1e-5)
    print("equal", one)
    """
    root = str(pathlib.Path(__file__).parents[1])
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        env={**os.environ, "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": root},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert "equal" in result.stdout, result.stderr[-3000:]
