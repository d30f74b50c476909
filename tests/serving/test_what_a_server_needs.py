"""A server loads each version: tables come along, and no warm-up request fails."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from bhn_tf import conformal
from bhn_tf.baselines import Deterministic

WORDS = np.array(["a", "b", "c", "a"])


class Places(keras.layers.Layer):
    """A layer with a table of its own, in a structure of some kind."""

    def __init__(self, holding, **kwargs):
        super().__init__(**kwargs)
        places = tf.lookup.KeyValueTensorInitializer(["a", "b"], [1, 2])
        self.places = holding(tf.lookup.StaticHashTable(places, default_value=0))

    def call(self, x):
        (places,) = keras.tree.flatten(self.places)
        return tf.one_hot(places.lookup(x), 3)

    def compute_output_shape(self, input_shape):
        return (*input_shape, 3)


def words(*layers):
    return keras.Sequential([keras.Input((), dtype="string"), *layers])


@pytest.mark.parametrize(
    "holding",
    [lambda table: table, lambda table: [table], lambda table: {"first": (table,)}],
    ids=["attribute", "list", "dictionary"],
)
def test_tables_of_own_layers_come_along(holding, tmp_path):
    model = Deterministic(words(Places(holding), keras.layers.Dense(3)))
    loaded = tf.saved_model.load(model.export(tmp_path))
    answers = loaded.signatures["deterministic"](inputs=tf.constant(WORDS.tolist()))
    expected = model.predict(WORDS, verbose=0)
    np.testing.assert_allclose(answers["mean"], expected, rtol=1e-6)


def images(*layers):
    pool = keras.layers.GlobalAveragePooling2D()
    return keras.Sequential(
        [keras.Input((None, None, 1)), *layers, pool, keras.layers.Dense(3)]
    )


NETWORKS = {
    "images of any size": (lambda: images(keras.layers.Conv2D(2, 1)), True),
    "too small for a kernel": (lambda: images(keras.layers.Conv2D(2, 3)), False),
    "no word of the vocabulary": (
        lambda: words(
            keras.layers.StringLookup(
                vocabulary=["a", "b"], num_oov_indices=0, output_mode="one_hot"
            ),
            keras.layers.Dense(3),
        ),
        False,
    ),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_requests_that_would_fail_are_no_warm_up(name, tmp_path):
    pytest.importorskip(
        "tensorflow_serving.apis.prediction_log_pb2",
        reason="the format is that of the package tensorflow-serving-api",
    )
    make, is_warmed_up = NETWORKS[name]
    Deterministic(make()).export(tmp_path, signatures="serving_default")
    path = tmp_path / "1" / "assets.extra" / "tf_serving_warmup_requests"
    assert path.exists() == is_warmed_up


@pytest.mark.slow
def test_a_guarantee_is_not_warmed_up(tmp_path):
    """Zeros would ask for the level 0, which it refuses."""
    apis = pytest.importorskip(
        "tensorflow_serving.apis.prediction_log_pb2",
        reason="the format is that of the package tensorflow-serving-api",
    )
    model = Deterministic(keras.Sequential([keras.Input((2,)), keras.layers.Dense(3)]))
    x, y = np.zeros((40, 2), "float32"), np.arange(40) % 3
    for by in (None, np.arange(40) % 2):
        calibrated = conformal.calibrate(model, x, y, by=by, num_samples=0)
        path = calibrated.export(tmp_path, ["deterministic", "predict_set"])
        records = tf.data.TFRecordDataset(
            f"{path}/assets.extra/tf_serving_warmup_requests"
        )
        logs = map(apis.PredictionLog.FromString, records.as_numpy_iterator())
        asked = [log.predict_log.request.model_spec.signature_name for log in logs]
        assert asked == ["deterministic"]
