"""A model refuses parts of another one, and members must be of one kind."""

import gc

import keras
import numpy as np
import pytest

import bhn_tf
from bhn_tf.baselines import DeepEnsemble, Deterministic
from bhn_tf.likelihoods import Categorical, Gaussian, Joint, Standardized, StudentT
from tests import networks


@pytest.fixture(autouse=True, scope="module")
def garbage_of_these_tests_alone():
    """Every refusal collects garbage: seconds, among all objects of a whole run."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


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


#: Likelihoods that training or its data change, and how many outputs they take.
LEARNED = [
    (lambda: Gaussian(trainable=True), 1),
    (lambda: StudentT(trainable=True), 1),
    (lambda: bhn_tf.likelihoods.Ordinal(3, trainable=True), 1),
    (lambda: Gaussian(heteroscedastic=True), 2),
    (lambda: Standardized(Gaussian()), 1),
]
FIXED = [lambda: Gaussian(0.5), lambda: Categorical(from_logits=True)]


def with_two_outputs():
    inputs = keras.Input((4,))
    outputs = {name: keras.layers.Dense(1, name=name)(inputs) for name in "ab"}
    return keras.Model(inputs, outputs)


@pytest.mark.parametrize(("make", "units"), LEARNED)
def test_a_likelihood_that_learns_belongs_to_one_model(make, units, tmp_path):
    likelihood = make()
    model = DeepEnsemble([member(units), member(units)], likelihood)
    takers = [lambda: Deterministic(member(units), likelihood)]
    takers.append(lambda: bhn_tf.from_keras(member(units), likelihood=likelihood))
    if likelihood.has_unit and not isinstance(likelihood, Standardized):
        takers += [
            lambda: Deterministic(member(), Standardized(likelihood)),
            lambda: Deterministic(member(), likelihood, normalize_targets=True),
            lambda: Deterministic(
                with_two_outputs(), {"a": likelihood, "b": "gaussian"}
            ),
        ]
    for take in takers:
        with pytest.raises(ValueError, match="likelihood .* belongs to another model"):
            take()
    # A model made from another one has its own likelihood.
    networks.compiled(model).save(tmp_path / "model.keras")
    copies = [
        keras.saving.load_model(tmp_path / "model.keras"),
        type(model).from_config(model.get_config()),
        keras.models.clone_model(model),
    ]
    assert all(copy.likelihood is not likelihood for copy in copies)
    unbuilt = Deterministic(keras.Sequential([keras.layers.Dense(units)]), likelihood)
    with pytest.raises(ValueError, match="belongs to another model"):
        unbuilt.build((None, 4))
    # One that was refused, and one that is gone, do not keep it.
    del model, takers
    unbuilt.build((None, 4))


@pytest.mark.parametrize("make", FIXED)
def test_a_likelihood_that_never_changes_is_free(make):
    likelihood = make()
    models = [Deterministic(member(), likelihood) for _ in range(2)]
    Joint([likelihood, likelihood])
    assert len({id(model.likelihood) for model in models}) == 1


@pytest.mark.parametrize(("make", "units"), LEARNED)
def test_outputs_do_not_share_what_they_learn(make, units):
    likelihood = make()
    with pytest.raises(ValueError, match="Several outputs have one likelihood"):
        Deterministic(with_two_outputs(), [likelihood, likelihood])
    if likelihood.has_unit and not isinstance(likelihood, Standardized):
        with pytest.raises(ValueError, match="Several outputs have one likelihood"):
            Joint([likelihood, Standardized(likelihood)])


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
