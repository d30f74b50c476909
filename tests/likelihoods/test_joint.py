"""The log-probability of several outputs is a sum, each with weights and masks."""

import json

import keras
import numpy as np
import pytest

from bhn_tf.likelihoods import Bernoulli, Categorical, Gaussian, Joint

CLIP = (0.001, 0.999)
RNG = np.random.default_rng(0)
RAW = {
    "kind": 9 * RNG.normal(size=(4, 5, 3)).astype("float32"),
    "size": RNG.normal(size=(4, 1)).astype("float32"),
}
Y = {"kind": RNG.integers(0, 3, size=(4, 5)), "size": RNG.normal(size=4)}
SHAPES = [(None, 5, 3), (None, 1)]
PARTS = {"kind": Categorical(True, CLIP), "size": Gaussian(0.5)}
MASK = np.array([[1, 1, 1, 0, 0]] * 4, bool)
ROW_WEIGHT = np.array([0.0, 1.0, 2.0, 0.5])
TOKEN_WEIGHT = RNG.uniform(size=(4, 5))


@pytest.fixture(scope="module")
def joint():
    return Joint(list(PARTS.values()), list(PARTS))


#: Given weight → weight of each output.
WEIGHTS = {
    "none": (None, {}),
    "one_for_all": (ROW_WEIGHT, {"kind": ROW_WEIGHT, "size": ROW_WEIGHT}),
    "by_name": (
        {"size": ROW_WEIGHT, "kind": TOKEN_WEIGHT},
        {"kind": TOKEN_WEIGHT, "size": ROW_WEIGHT},
    ),
    "by_name_in_part": ({"size": ROW_WEIGHT}, {"size": ROW_WEIGHT}),
    "list_with_none": ([TOKEN_WEIGHT, None], {"kind": TOKEN_WEIGHT}),
}


@pytest.mark.parametrize("mask", [None, [MASK, None]], ids=["all", "masked"])
@pytest.mark.parametrize("weights", WEIGHTS.values(), ids=WEIGHTS)
@pytest.mark.parametrize("structure", ["by_name", "list"])
def test_each_output_has_its_weight_and_mask(joint, weights, mask, structure):
    given, by_name = weights
    y = Y if structure == "by_name" else list(Y.values())
    arguments = (y, RAW, given, mask)
    masks = {"kind": None if mask is None else MASK, "size": None}
    named = joint.named_log_probs(*arguments)
    measured = 0.0
    for name, part in PARTS.items():
        of_output = (Y[name], RAW[name], by_name.get(name), masks[name])
        np.testing.assert_array_equal(named[name], part.log_prob(*of_output))
        measured += part.measured_log_prob(*of_output)
    np.testing.assert_allclose(joint.log_prob(*arguments), sum(named.values()))
    np.testing.assert_allclose(joint.measured_log_prob(*arguments), measured, rtol=1e-6)
    assert np.abs(joint.log_prob(*arguments) - measured).max() > 0.1


def test_labels_of_weight_zero_are_checked_nowhere(joint):
    y = {"kind": Y["kind"].copy(), "size": Y["size"].copy()}
    y["kind"][0], y["size"][0] = 1000, np.nan
    assert not joint.valid_labels(y, SHAPES)
    with pytest.raises(ValueError, match="3 classes, so give"):
        joint.check_labels(y, SHAPES)
    assert joint.valid_labels(y, SHAPES, ROW_WEIGHT)
    joint.check_labels(y, SHAPES, ROW_WEIGHT)
    assert np.isfinite(joint.measured_log_prob(y, RAW, ROW_WEIGHT)).all()
    with pytest.raises(ValueError, match="give a finite number"):
        joint.check_labels(y, SHAPES, {"kind": ROW_WEIGHT})
    y = {**Y, "kind": np.where(MASK, Y["kind"], -1)}
    joint.check_labels(y, SHAPES, mask=[MASK, None])


@pytest.mark.parametrize("y", [{**Y, "size": None}, [Y["kind"], None]])
def test_outputs_without_labels_are_refused(joint, y):
    for use in (
        lambda: joint.log_prob(y, RAW),
        lambda: joint.check_labels(y, SHAPES),
        lambda: joint.valid_labels(y, SHAPES),
    ):
        with pytest.raises(ValueError, match=r"\['size'\] have no labels.*weight"):
            use()


def test_weights_of_unknown_outputs_are_refused(joint):
    with pytest.raises(ValueError, match=r"`sample_weight` has \['colour'\]"):
        joint.log_prob(Y, RAW, {"colour": ROW_WEIGHT})


def test_scores_of_padding_are_nan(joint):
    raws = {name: raw[None] for name, raw in RAW.items()}
    summary = joint.summarize(raws, [MASK, None])
    entropy = summary["kind"]["predictive_entropy"].numpy()
    np.testing.assert_array_equal(np.isnan(entropy), ~MASK)
    assert np.isfinite(summary["size"]["std"]).all()


# -- weights of the outputs --------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, [1.0, 1.0]),
        ({"size": 2}, [1.0, 2.0]),
        ([0.5, 3.0], [0.5, 3.0]),
        ({"size": 2.0, "kind": 0.5}, [0.5, 2.0]),
    ],
)
def test_loss_weights_are_listed_in_the_order_of_the_outputs(joint, given, expected):
    before = joint.log_prob(Y, RAW).numpy()
    assert joint.loss_weights_by_output(given) == expected
    np.testing.assert_array_equal(joint.log_prob(Y, RAW), before)


def test_loss_weights_that_do_not_fit_are_refused(joint):
    with pytest.raises(ValueError, match=r"`loss_weights` has \['colour'\]"):
        joint.loss_weights_by_output({"colour": 1.0})
    with pytest.raises(ValueError, match="`loss_weights` has 3 values"):
        joint.loss_weights_by_output([1.0, 2.0, 3.0])
    for wrong in (float("nan"), float("inf"), -1.0, "1"):
        with pytest.raises(ValueError, match="`loss_weights` has .* for 'size'"):
            joint.loss_weights_by_output({"size": wrong})


@pytest.mark.parametrize("single", [Categorical(True), Bernoulli(True), Gaussian()])
def test_a_single_output_cannot_be_weighed(single):
    assert single.loss_weights_by_output(None) == [1.0]
    with pytest.raises(ValueError, match="the network has one. Leave it out"):
        single.loss_weights_by_output([2.0])


def test_a_config_of_version_0_1_loads():
    config = Joint(list(PARTS.values()), list(PARTS)).get_config()
    for part in config["parts"]:
        part["config"].pop("ignore_class", None)
    config["weights"] = [2.0, 0.5]
    loaded = Joint.from_config(json.loads(json.dumps(config)))
    assert loaded.loss_weights_by_output(None) == [2.0, 0.5]
    assert loaded.loss_weights_by_output([1.0, 1.0]) == [1.0, 1.0]
    np.testing.assert_array_equal(
        loaded.log_prob(Y, RAW),
        Joint(list(PARTS.values()), list(PARTS)).log_prob(Y, RAW),
    )
    again = keras.saving.deserialize_keras_object(
        keras.saving.serialize_keras_object(loaded)
    )
    assert again.loss_weights_by_output(None) == [2.0, 0.5]
