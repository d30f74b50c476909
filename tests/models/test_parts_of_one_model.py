"""A model refuses parts of another one, and members must be of one kind."""

import keras
import numpy as np
import pytest

import bhn_tf
from bhn_tf.baselines import DeepEnsemble, Deterministic
from tests import networks


def member(units=3, activation=None):
    return keras.Sequential(
        [keras.Input((4,)), keras.layers.Dense(units, activation=activation)]
    )


def test_members_that_are_not_of_one_kind_are_refused():
    one = member()
    with pytest.raises(ValueError, match="several times"):
        DeepEnsemble([one, member(), one])
    with pytest.raises(ValueError, match="different outputs.*3.*2"):
        DeepEnsemble([one, member(units=2)])
    with pytest.raises(ValueError, match="linear and softmax"):
        DeepEnsemble([one, member(), member(activation="softmax")])
    late = DeepEnsemble([keras.Sequential([keras.layers.Dense(n)]) for n in (3, 2)])
    with pytest.raises(ValueError, match="different outputs"):
        late.build((None, 4))


def test_members_of_several_shapes_inside_are_an_ensemble():
    inputs = keras.Input((4,))
    hidden = keras.layers.Dense(7, activation="relu")(inputs)
    other = keras.Model(inputs, keras.layers.Dense(3)(hidden))
    model = DeepEnsemble([member(), other, networks.subclassed()])
    model.predict(np.ones((2, 4), "float32"), verbose=0)


def test_a_hypernet_belongs_to_one_model(tmp_path):
    hypernet = bhn_tf.hypernets.MeanField()
    model = networks.bayesian(hypernet=hypernet)
    with pytest.raises(ValueError, match="belongs to another model"):
        networks.bayesian(hypernet=hypernet)
    unbuilt = keras.Sequential([bhn_tf.layers.WeightNormDense(3)])
    unbuilt = bhn_tf.BayesianHypernet(unbuilt, hypernet)
    with pytest.raises(ValueError, match="belongs to another model"):
        unbuilt.build((None, 4))
    # A model made from another one has its own hypernet.
    networks.compiled(model).save(tmp_path / "model.keras")
    copies = [
        keras.saving.load_model(tmp_path / "model.keras"),
        type(model).from_config(model.get_config()),
        keras.models.clone_model(model),
    ]
    assert hypernet not in [copy.hypernet for copy in copies]
    # A model whose construction failed does not keep it either.
    other = bhn_tf.hypernets.MeanField()
    with pytest.raises(ValueError, match="prior_loc"):
        networks.bayesian(hypernet=other, prior_loc=[0.0, 1.0])
    networks.bayesian(hypernet=other)
    del model
    networks.bayesian(hypernet=hypernet)


@pytest.mark.parametrize(
    "wrap",
    [
        bhn_tf.BayesianHypernet,
        bhn_tf.from_keras,
        Deterministic,
        lambda network: DeepEnsemble([member(), network]),
    ],
)
def test_a_model_inside_of_another_ones_network_is_refused(wrap):
    """The inner one's draws would hide those of the outer."""
    inputs = keras.Input((networks.NUM_FEATURES,))
    hidden = networks.bayesian(hypernet="mean_field")(inputs)
    network = keras.Model(inputs, keras.layers.Dense(3)(hidden))
    with pytest.raises(ValueError, match="holds the BayesianHypernet 'bayesian"):
        wrap(network)
