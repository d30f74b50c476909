"""Frozen ensembles in LiteRT need only its own operations and answer the same."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

import bhn_tf

pytest.importorskip("ai_edge_litert", reason="the interpreter of LiteRT")


def perceptron():
    return keras.Sequential(
        [keras.Input((4,)), layers.Dense(6, "relu"), layers.Dense(3)]
    )


def encoder():
    inputs = keras.Input((5, 8))
    attended = layers.MultiHeadAttention(2, 4)(inputs, inputs)
    x = layers.LayerNormalization()(layers.Add()([inputs, attended]))
    return keras.Model(inputs, layers.Dense(3)(layers.GlobalAveragePooling1D()(x)))


@pytest.mark.parametrize(
    "make", [perceptron, pytest.param(encoder, marks=pytest.mark.slow)]
)
def test_answers_in_litert_are_those_of_the_model(make, tmp_path):
    from ai_edge_litert.interpreter import Interpreter

    network = make()
    model = bhn_tf.from_keras(network, "mean_field", num_examples=10)
    settings = {"num_samples": 3, "seed": 1}
    path = model.export(
        tmp_path, ensemble=True, signatures="serving_default", **settings
    )
    # Without Flex operations, which the converter uses only if told to.
    converter = tf.lite.TFLiteConverter.from_saved_model(
        path, signature_keys=["serving_default"]
    )
    interpreter = Interpreter(model_content=converter.convert())
    run = interpreter.get_signature_runner("serving_default")
    for rows in (2, 5):
        x = np.random.default_rng(0).random((rows, *network.input_shape[1:]))
        x = x.astype("float32")
        (name,) = run.get_input_details()
        found = run(**{name: x})
        expected = model.predict_uncertainty(x, verbose=0, **settings)
        assert set(found) == set(expected)
        for score, values in expected.items():
            np.testing.assert_allclose(found[score], values, atol=1e-5, err_msg=score)
    assert np.ptp(found["mutual_information"]) > 0
