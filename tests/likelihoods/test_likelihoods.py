"""What all likelihoods share: choosing one, averaging over draws, configuration."""

import inspect
import json
import re
import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

import bhn_tf
from bhn_tf import likelihoods
from bhn_tf.layers import WeightNormDense
from bhn_tf.likelihoods import Bernoulli, Categorical, Gaussian

CONFIGURED = {
    "categorical": lambda: Categorical(True, (0.01, 0.9), "mean"),
    "bernoulli": lambda: Bernoulli(False, [0.01, 0.9], "mean"),
    "gaussian": lambda: Gaussian(stddev=0.3, trainable=True, reduction="mean"),
    "heteroscedastic": lambda: Gaussian(stddev=0.3, heteroscedastic=True),
}


def test_get_knows_the_names_and_hands_instances_on():
    assert type(likelihoods.get("categorical")) is Categorical
    assert type(likelihoods.get("bernoulli")) is Bernoulli
    assert type(likelihoods.get("gaussian")) is Gaussian
    likelihood = Gaussian(0.1)
    assert likelihoods.get(likelihood) is likelihood


def test_help_lists_every_name_and_no_other():
    told = inspect.getdoc(likelihoods.get).split("A name:")[1].split("an instance")[0]
    with pytest.raises(ValueError, match="Expected `likelihood` to be one of") as error:
        likelihoods.get("none of them")
    known = str(error.value).split("]")[0]
    assert re.findall('"(.*?)"', told) == re.findall("'(.*?)'", known)


@pytest.mark.parametrize(
    ("loss", "instead"),
    [
        ("sparse_categorical_crossentropy", "categorical"),
        ("categorical_crossentropy", "categorical"),
        ("binary_crossentropy", "bernoulli"),
        ("mse", "gaussian"),
        (keras.losses.SparseCategoricalCrossentropy(from_logits=True), "categorical"),
        (keras.losses.BinaryCrossentropy(), "bernoulli"),
        (keras.losses.MeanSquaredError(), "gaussian"),
        (keras.losses.sparse_categorical_crossentropy, "categorical"),
        (keras.losses.mean_squared_error, "gaussian"),
        ("mae", "laplace"),
        (keras.losses.MeanAbsoluteError(), "laplace"),
        ("huber", "student_t"),
        (keras.losses.Huber(), "student_t"),
        (keras.losses.LogCosh(), "student_t"),
        (keras.losses.MeanSquaredLogarithmicError(), "log_normal"),
        (keras.losses.Poisson(), "poisson"),
        (keras.losses.poisson, "poisson"),
    ],
)
def test_keras_losses_are_refused_with_what_to_use(loss, instead):
    with pytest.raises(ValueError, match=f"is a loss.*`likelihood='{instead}'`"):
        likelihoods.get(loss)


@pytest.mark.parametrize("identifier", ["cauchy", None, 3, keras.losses.Hinge()])
def test_unknown_likelihoods_are_refused_with_the_choices(identifier):
    with pytest.raises(ValueError, match="'bernoulli', 'beta', 'categorical'"):
        likelihoods.get(identifier)


@pytest.mark.parametrize(
    ("identifier", "advice"),
    [
        (Gaussian, r"an instance of the class: `Gaussian\(\)`"),
        (lambda raw: None, r"wrap it: `bhn_tf.likelihoods.Distribution\(function\)`"),
        ({"size": lambda raw: None}, "wrap it"),
    ],
    ids=["class", "function", "function of an output"],
)
def test_classes_and_functions_are_refused_with_what_to_do(identifier, advice):
    with pytest.raises(ValueError, match=advice):
        likelihoods.get(identifier)


def test_what_a_subclass_lacks_is_named():
    class OfTheMean(likelihoods.Likelihood):
        def mean(self, raw):
            return raw

    with pytest.raises(NotImplementedError, match=r"OfTheMean has no `element_shape`"):
        OfTheMean().log_prob([[1.0]], [[0.0]])
    lacking = "element_shape", "coded_labels", "element_log_prob", "valid_elements"
    for name in (*lacking, "summarize", "label_advice"):
        method = getattr(OfTheMean(), name)
        arguments = [None] * len(inspect.signature(method).parameters)
        with pytest.raises(NotImplementedError, match=rf"`{name}`.*Distribution"):
            method(*arguments)
        assert f"`{name}`" in likelihoods.Likelihood.__doc__


def test_a_class_that_files_cannot_name_is_warned_of():
    class Own(Gaussian):
        pass

    for given in (Own(), {"a": Own(), "b": "gaussian"}):
        with pytest.warns(UserWarning, match="class Own is not registered.*its class"):
            likelihoods.get(given)
    with warnings.catch_warnings(), keras.saving.custom_object_scope({"Own": Own}):
        warnings.simplefilter("error")
        likelihoods.get(Own())


@pytest.mark.parametrize("make", [Categorical, Bernoulli, Gaussian])
def test_unknown_reduction_is_refused(make):
    with pytest.raises(ValueError, match="'sum' or 'mean', got 'none'"):
        make(reduction="none")


# -- averages over draws -----------------------------------------------------------


def test_predictive_log_prob_is_the_log_of_the_mean_probability():
    log_probs = np.random.default_rng(0).normal(size=(6, 4)).astype("float32")
    expected = np.log(np.mean(np.exp(log_probs.astype("float64")), axis=0))
    for likelihood in (Categorical(True), Bernoulli(True), Gaussian()):
        result = likelihood.predictive_log_prob(tf.constant(log_probs))
        np.testing.assert_allclose(result, expected, rtol=1e-5)


def test_predictive_log_prob_of_impossible_labels_is_no_nan():
    log_probs = tf.constant([[-1e4, -2000.0], [-1e4, 0.0]])
    result = Categorical(True).predictive_log_prob(log_probs)
    np.testing.assert_allclose(result, [-1e4, -np.log(2)], rtol=1e-5)


def test_predictive_log_prob_agrees_with_the_predicted_mean():
    raws = np.random.default_rng(0).normal(size=(6, 4, 3)).astype("float32")
    labels = np.array([0, 1, 2, 1])
    likelihood = Categorical(from_logits=True)
    log_probs = tf.stack([likelihood.log_prob(labels, raw) for raw in raws])
    mean = likelihood.summarize(raws)["mean"].numpy()
    np.testing.assert_allclose(
        likelihood.predictive_log_prob(log_probs),
        np.log(mean[np.arange(4), labels]),
        rtol=1e-5,
    )


@pytest.mark.parametrize("likelihood", [Categorical(True), Bernoulli(True)])
def test_classification_has_no_interval(likelihood):
    with pytest.raises(
        ValueError, match="needs a regression likelihood.*this model has"
    ):
        likelihood.interval(tf.zeros([3, 2, 1]), 0.9)


# -- logits or probabilities -------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "activation"), [(Categorical, "softmax"), (Bernoulli, "sigmoid")]
)
def test_the_last_activation_says_what_the_outputs_are(make, activation):
    likelihood = make(clip=(0.1, 0.9), reduction="mean")
    with pytest.raises(ValueError, match="outside a model needs `from_logits=True`"):
        likelihood.mean([[0.0]])
    for name, from_logits in (("linear", True), (activation, False)):
        resolved = likelihood.resolved(keras.activations.get(name), "")
        assert resolved.from_logits is from_logits
        assert resolved.clip == (0.1, 0.9) and resolved.reduction == "mean"
    assert likelihood.from_logits is None


@pytest.mark.parametrize("make", [Categorical, Bernoulli])
def test_other_activations_are_asked_about(make):
    with pytest.raises(ValueError, match="last activation is relu.*from_logits=True"):
        make().resolved(keras.activations.relu, "")
    with pytest.raises(ValueError, match="it has no layer.*from_logits=True"):
        make().resolved(None, "it has no layer")


@pytest.mark.parametrize("from_logits", [True, False])
@pytest.mark.parametrize("make", [Categorical, Bernoulli])
def test_what_the_user_says_counts(make, from_logits):
    likelihood = make(from_logits=from_logits)
    assert likelihood.resolved(keras.activations.relu, "") is likelihood


def test_a_gaussian_takes_every_network():
    likelihood = Gaussian()
    assert likelihood.resolved(keras.activations.relu, "") is likelihood


# -- configuration -----------------------------------------------------------------


@pytest.mark.parametrize("make", CONFIGURED.values(), ids=CONFIGURED)
def test_config_survives_json(make):
    likelihood = make()
    serialized = keras.saving.serialize_keras_object(likelihood)
    clone = keras.saving.deserialize_keras_object(json.loads(json.dumps(serialized)))
    assert type(clone) is type(likelihood)
    assert clone.get_config() == likelihood.get_config()
    raw = np.array([[0.2, 0.6], [0.7, 0.1]], "float32")
    labels = np.array([[1.0, 0.0], [0.0, 1.0]])[:, : likelihood.mean(raw).shape[-1]]
    np.testing.assert_array_equal(
        clone.log_prob(labels, raw), likelihood.log_prob(labels, raw)
    )


@pytest.mark.parametrize("trainable", [False, True])
def test_the_noise_of_a_model_is_saved(trainable, tmp_path):
    primary = keras.Sequential([keras.Input((2,)), WeightNormDense(1)])
    likelihood = Gaussian(stddev=0.5, trainable=trainable)
    model = bhn_tf.BayesianHypernet(primary, "mean_field", likelihood)
    trained = {variable.path for variable in model.trainable_variables}
    assert (likelihood.log_stddev.path in trained) == trainable
    likelihood.log_stddev.assign(np.log(0.05))
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    raw, targets = np.zeros((3, 1), "float32"), np.ones((3, 1), "float32")
    np.testing.assert_allclose(
        loaded.likelihood.log_prob(targets, raw),
        likelihood.log_prob(targets, raw),
        rtol=1e-6,
    )
    trained_again = {variable.path for variable in loaded.trainable_variables}
    assert len(trained_again) == len(trained)
