"""Regularizers and constraints act on trained values; a warning says where not."""

import keras
import pytest

import bhn_tf
from tests import networks

BOTH = {
    "kernel_regularizer": "l2",
    "kernel_constraint": "non_neg",
    "bias_regularizer": "l2",
}


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("random", "arguments", "lost"),
    [
        ("scale", BOTH, []),
        ("rank_one", BOTH, []),
        ("scale_and_bias", BOTH, ["bias"]),
        ("kernel", BOTH, ["kernel"]),
        ("kernel_and_bias", BOTH, ["kernel", "bias"]),
        ("kernel_and_bias", {}, []),
    ],
)
def test_what_has_no_effect_is_named(random, arguments, lost, recwarn):
    layer = bhn_tf.layers.WeightNormDense(3, random=random, name="top", **arguments)
    primary = keras.Sequential([keras.Input((networks.NUM_FEATURES,)), layer])
    model = networks.bayesian(primary, "mean_field", num_examples=9)
    networks.compiled(model).fit(*networks.data(9), verbose=0)
    said = [str(each.message) for each in recwarn if "no effect" in str(each.message)]
    assert len(said) == bool(lost)
    if lost:
        assert str([f"top/{name}" for name in lost]) in said[0]
    # The number of those that are left to regularize.
    kept = [name for name in BOTH if name in arguments and "regularizer" in name]
    kept = [name for name in kept if name.split("_")[0] not in lost]
    assert len(model.losses) == len(kept)


def test_the_report_of_a_conversion_says_it():
    network = keras.Sequential(
        [
            keras.Input((4,)),
            keras.layers.Dense(5, name="plain"),
            keras.layers.Dense(5, kernel_regularizer="l2", name="hidden"),
            keras.layers.BatchNormalization(gamma_constraint="non_neg", name="norm"),
            keras.layers.Dense(3, name="logits"),
        ]
    )
    for random, expected in (("scale", "norm"), ("kernel", "hidden")):
        with pytest.warns(UserWarning, match=rf"\['{expected}/\w+'\] have no effect"):
            model = bhn_tf.from_keras(network, "mean_field", random=random)
        reasons = {row.path: row.reason for row in model.conversion_report}
        lost = [path for path, reason in reasons.items() if "no effect" in reason]
        assert lost == [expected]


def spectral(layer):
    return keras.layers.SpectralNormalization(layer, name="limited")


@pytest.mark.parametrize(
    ("make", "is_lost"),
    [
        (lambda: spectral(bhn_tf.layers.WeightNormDense(3)), True),
        (lambda: spectral(keras.layers.Dense(3)), False),
        (
            lambda: bhn_tf.layers.WeightNormDense(
                3, random="none", kernel_constraint="max_norm", name="limited"
            ),
            True,
        ),
        (lambda: bhn_tf.layers.WeightNormDense(3, kernel_constraint="non_neg"), False),
        (lambda: keras.layers.Dense(3, kernel_constraint="max_norm"), False),
        (
            # Norms over the outputs of each input: another direction.
            lambda: bhn_tf.layers.WeightNormDense(
                3, kernel_constraint=keras.constraints.UnitNorm(axis=-1)
            ),
            False,
        ),
    ],
)
def test_limits_that_weight_normalisation_divides_out_are_named(make, is_lost, recwarn):
    """Nothing but the scale says how large such a kernel is."""
    primary = keras.Sequential([keras.Input((networks.NUM_FEATURES,)), make()])
    networks.bayesian(primary, "mean_field")
    said = [str(each.message) for each in recwarn if "no effect" in str(each.message)]
    assert [message.count("['limited']") for message in said] == [1] * is_lost
