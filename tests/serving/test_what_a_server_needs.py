"""A server loads each version: tables come along, and no warm-up request fails."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from bhn_tf.baselines import Deterministic

WORDS = np.array(["a", "b", "c", "a"])


class Places(keras.layers.Layer):
    """A layer with a table of its own."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        places = tf.lookup.KeyValueTensorInitializer(["a", "b"], [1, 2])
        self.places = tf.lookup.StaticHashTable(places, default_value=0)

    def call(self, x):
        return tf.one_hot(self.places.lookup(x), 3)

    def compute_output_shape(self, input_shape):
        return (*input_shape, 3)


def words(*layers):
    return keras.Sequential([keras.Input((), dtype="string"), *layers])


def test_tables_of_own_layers_come_along(tmp_path):
    model = Deterministic(words(Places(), keras.layers.Dense(3)))
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
