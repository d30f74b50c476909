"""What is measured is neither clipped nor weighted by `loss_weights`."""

import keras
import numpy as np
import pytest

import bhn_tf
from bhn_tf import hamiltonian
from bhn_tf.layers import WeightNormDense
from bhn_tf.likelihoods import Bernoulli, Categorical, Gaussian
from tests import networks

NUM_ROWS = 7
#: So narrow that every row of an untrained network is clipped.
CLIP = (0.45, 0.55)


def two_outputs(likelihood, y, **kwargs):
    inputs = keras.Input((networks.NUM_FEATURES,))
    hidden = WeightNormDense(4, activation="relu")(inputs)
    outputs = {
        "kind": WeightNormDense(networks.NUM_CLASSES, name="kind")(hidden),
        "size": WeightNormDense(1, name="size")(hidden),
    }
    return keras.Model(inputs, outputs), likelihood, y, kwargs


def one_output(likelihood, y):
    return networks.sequential(), likelihood, y, {}


def cases():
    """Pairs of models that differ in an option that must not matter, by its name."""
    x, y = networks.data(NUM_ROWS)
    both = {"kind": y, "size": x[:, 0]}
    yes_or_no = (x[:, : networks.NUM_CLASSES] > 0).astype("float32")
    pair = {"kind": Categorical(True), "size": Gaussian(0.5)}
    clipped = {"kind": Categorical(True, CLIP), "size": Gaussian(0.5)}
    weights = {"loss_weights": {"kind": 2.0, "size": 0.5}}
    return {
        "clipped classes": (
            one_output(Categorical(True), y),
            one_output(Categorical(True, CLIP), y),
        ),
        "clipped yes or no": (
            one_output(Bernoulli(True), yes_or_no),
            one_output(Bernoulli(True, CLIP), yes_or_no),
        ),
        "weighted outputs": (
            two_outputs(pair, both),
            two_outputs(pair, both, **weights),
        ),
        "clipped and weighted outputs": (
            two_outputs(pair, both),
            two_outputs(clipped, both, **weights),
        ),
    }


def compiled(primary, likelihood, y, arguments):
    keras.utils.set_random_seed(0)
    model = bhn_tf.BayesianHypernet(
        primary, "mean_field", likelihood, num_examples=NUM_ROWS, seed=1
    )
    model.compile("sgd", run_eagerly=True, **arguments)
    return model, y


@pytest.fixture(scope="module", params=cases())
def pair(request):
    (plain, y), (other, _) = (compiled(*made) for made in cases()[request.param])
    other.set_weights(plain.get_weights())
    return plain, other, networks.data(NUM_ROWS)[0], y


@pytest.mark.few(2)
def test_evaluate_measures_the_same(pair):
    plain, other, x, y = pair
    first, second = (
        model.evaluate(x, y, seed=3, verbose=0, return_dict=True)
        for model in (plain, other)
    )
    for name in ("predictive_nll", "kl"):
        assert second[name] == pytest.approx(first[name], rel=1e-6)
    # And the option has an effect.
    assert second["nll"] != pytest.approx(first["nll"], rel=1e-3)
    for logs in (first, second):
        networks.assert_identity(logs, NUM_ROWS)


@pytest.mark.few(1)
def test_the_bound_is_the_same(pair):
    plain, other, x, y = pair
    first, second = (model.elbo(x, y, 5, seed=3) for model in (plain, other))
    np.testing.assert_allclose(second, first, rtol=1e-6)
    # And it is the bound of the data: the likelihood of all rows less the whole KL.
    logs = plain.evaluate(x, y, num_samples=5, seed=3, verbose=0, return_dict=True)
    expected = -NUM_ROWS * logs["nll"] - logs["kl"]
    assert first.mean == pytest.approx(expected, rel=1e-5)


@pytest.mark.slow
def test_hamiltonian_monte_carlo_moves_in_the_same_density(pair):
    plain, other, x, y = pair
    scales = plain.sample_scales(4, seed=1)
    first, second = (
        hamiltonian.log_joint(model, x, y)(scales).numpy() for model in (plain, other)
    )
    np.testing.assert_allclose(second, first, rtol=1e-5)
    # And it is that of the data: at one draw, what `evaluate` measures there.
    logs = plain.evaluate(x, y, num_samples=1, seed=2, verbose=0, return_dict=True)
    draw = plain.sample_scales(1, seed=2)
    expected = plain.prior.log_prob(draw) - NUM_ROWS * logs["predictive_nll"]
    found = hamiltonian.log_joint(plain, x, y)(draw)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.slow
def test_hamiltonian_draws_answer_as_the_model_does(pair):
    plain, _, x, _ = pair
    asked = {"num_samples": 3, "seed": 1}
    scales = plain.sample_scales(**asked)
    for answer in ("samples", "uncertainty"):
        name = f"predict_{answer}"
        ours = getattr(hamiltonian, name, hamiltonian.samples)(plain, x, scales)
        expected = getattr(plain, name)(x, verbose=0, **asked)
        keras.tree.map_structure(
            lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6),
            ours,
            expected,
        )


@pytest.mark.few(2)
def test_training_keeps_its_identity(pair):
    _, other, x, y = pair
    logs = other.fit(x, y, batch_size=3, verbose=0).history
    networks.assert_identity(logs, NUM_ROWS)
