import keras
import numpy as np
import pytest

from bhn_tf.layers import WeightNormEmbedding
from tests.layers.layer_check import (
    check_config,
    check_dtype_policies,
    check_equals_its_twin,
    check_random,
)

WORDS = np.array([[1, 2, 0], [8, 3, 3], [5, 0, 0], [7, 6, 4]], "int32")
VOCABULARY = {"input_dim": 9, "output_dim": 4}


OPTIONS = {
    "plain": {},
    "mask": {"mask_zero": True},
    "regularizers": {"embeddings_regularizer": "l2", "activity_regularizer": "l1"},
}


@pytest.mark.few(1)
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_layer(options):
    arguments = {**VOCABULARY, **options}
    for check in (
        check_equals_its_twin,
        check_random,
        check_config,
        check_dtype_policies,
    ):
        check(WeightNormEmbedding, arguments, WORDS)


@pytest.mark.parametrize("words", [WORDS[:, 0], WORDS.astype("float32")])
def test_other_inputs(words):
    check_equals_its_twin(WeightNormEmbedding, VOCABULARY, words)


def test_masks_padding_as_keras_does():
    network = keras.Sequential(
        [
            keras.Input((3,), dtype="int32"),
            WeightNormEmbedding(9, 4, mask_zero=True),
            keras.layers.GlobalAveragePooling1D(),
        ]
    )
    np.testing.assert_allclose(network(WORDS[2:3]), network(WORDS[2:3, :1]), rtol=1e-6)


def test_given_embeddings_are_kept():
    weights = np.random.default_rng(0).normal(size=(9, 4)).astype("float32")
    for given in (weights, [weights]):
        layer = WeightNormEmbedding(9, 4, weights=given)
        np.testing.assert_allclose(layer(WORDS), weights[WORDS], rtol=1e-6)


def test_numbers_of_words_have_no_scales():
    with pytest.raises(ValueError, match="inputs.* are the numbers of words"):
        WeightNormEmbedding(9, 4, random="rank_one")


def test_large_numbers_of_words_survive_half_precision():
    """They are not cast on the way to what draws share."""
    layer = WeightNormEmbedding(4100, 2, dtype="mixed_float16")
    words = np.array([[4097], [4098]], "int32")
    outputs = layer(words)
    expected = layer.embeddings.numpy()[words]
    np.testing.assert_allclose(outputs, expected, rtol=1e-2, atol=1e-4)
