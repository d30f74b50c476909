"""Arguments that are NumPy numbers are kept as numbers that JSON can hold."""

import json

import numpy as np
import pytest

from bhn_tf import callbacks, hypernets, likelihoods, metrics, priors
from bhn_tf.arguments import check_count
from bhn_tf.conformal import risk
from bhn_tf.models import BayesianHypernet
from tests import networks


def flow(count, number):
    return dict(
        num_layers=count(2),
        hidden_units=(count(4),),
        permutation_seed=count(3),
        initial_stddev=number(0.5),
        max_shift=number(2),
    )


def compiled(count, number):
    model = BayesianHypernet(networks.sequential(), "mean_field")
    model.compile(
        "sgd",
        kl_weight=number(0.5),
        train_samples=count(2),
        per_example_noise=count(2),
        eval_samples=count(3),
    )
    config = model.get_compile_config()
    return {name: config[name] for name in config if name != "optimizer"}


def posterior_tensorboard(count, number):
    pytest.importorskip("tensorboard")
    return callbacks.PosteriorTensorBoard("logs", None, None, *map(count, (8, 2, 1)))


MAKERS = {
    "RealNVP": lambda count, number: hypernets.RealNVP(**flow(count, number)),
    "IAF": lambda count, number: hypernets.IAF(**flow(count, number)),
    "Chunked": lambda count, number: hypernets.Chunked(
        chunk_size=count(4), embedding_size=count(2), **flow(count, number)
    ),
    "KLAnnealing": lambda count, number: callbacks.KLAnnealing(
        number(0.5), number(1), count(3), patience=count(2), min_delta=number(0.25)
    ),
    "PosteriorTensorBoard": posterior_tensorboard,
    "Mixture": lambda count, number: likelihoods.Mixture(count(2), number(0.5)),
    "Ordinal": lambda count, number: likelihoods.Ordinal(count(3)),
    "compile": compiled,
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_configurations_of_numpys_numbers_are_those_of_pythons(make):
    configs = []
    for types in ((int, float), (np.int64, np.float32)):
        found = make(*types)
        config = found if isinstance(found, dict) else found.get_config()
        # Keras tells unnamed layers apart by a counter.
        configs.append(json.dumps({**config, "name": None}))
    assert configs[0] == configs[1]


@pytest.mark.parametrize("value", [0, -1, 1.5, 2.0, "3", None, True, np.float64(2)])
def test_what_is_no_count(value):
    with pytest.raises(ValueError, match="`rows` to be an integer of at least 1"):
        check_count("rows", value, minimum=1)


@pytest.mark.parametrize(
    "ask",
    [
        lambda level: networks.bayesian().predict_interval(networks.data(2)[0], level),
        lambda level: metrics.interval_score([0.0], [0.0], [0.0], level),
        lambda level: risk.controlled_threshold([0.0], [0], level, 0.9),
    ],
)
@pytest.mark.parametrize(
    "level", [np.array([0.5, 0.9]), [0.5, 0.9], "0.9", None, 1, 1.0]
)
def test_a_probability_is_one_number(ask, level):
    with pytest.raises(ValueError, match="to be one probability") as caught:
        ask(level)
    assert str(caught.value).endswith("once for each.") == (np.ndim(level) == 1)


AMOUNTS = {
    "kl_weight": lambda value: BayesianHypernet(
        networks.sequential(), "mean_field"
    ).compile("sgd", kl_weight=value),
    "start": lambda value: callbacks.KLAnnealing(value),
    "epochs": lambda value: callbacks.KLAnnealing(0.0, epochs=value),
    "min_delta": lambda value: callbacks.KLAnnealing(0.0, min_delta=value),
    "relative_stddev": priors.Trained,
    "initial_stddev": hypernets.MeanField,
    "prior_stddev": lambda value: BayesianHypernet(
        networks.sequential(), "mean_field", prior_stddev=value
    ),
}


@pytest.mark.parametrize("name", AMOUNTS)
@pytest.mark.parametrize(
    "value",
    ["a", None, [0.5, 0.5], -1.0, 1e39, float("nan"), float("inf"), np.float16("inf")],
    ids=str,
)
def test_an_amount_is_one_number_that_float32_holds(name, value):
    with pytest.raises(ValueError, match=f"`{name}` to be a (positive )?number"):
        AMOUNTS[name](value)


@pytest.mark.parametrize("name", AMOUNTS)
def test_an_amount_may_be_a_number_of_numpy(name):
    AMOUNTS[name](np.float16(1.0))


def test_a_refused_weight_of_the_kl_leaves_the_model_as_it_is():
    model = BayesianHypernet(networks.sequential(), "mean_field")
    with pytest.raises(ValueError, match="infinite in float32"):
        model.compile("sgd", kl_weight=1e39)
    assert not model.compiled
    assert model.kl_weight == 1.0


@pytest.mark.parametrize("loc", [1e39, [0.0, -1e39], "mean", np.float16("inf")])
def test_a_mean_of_the_prior_is_finite_in_float32(loc):
    with pytest.raises(ValueError, match="`prior_loc` to be a number or D numbers"):
        BayesianHypernet(networks.sequential(), "mean_field", prior_loc=loc)


@pytest.mark.parametrize(
    "arguments",
    [
        {"validation_batch_size": -1},
        {"validation_batch_size": 0},
        {"validation_steps": -1},
        {"validation_split": "0.5"},
    ],
    ids=str,
)
def test_numbers_of_the_validation_are_checked_before_training(arguments):
    model = networks.compiled(networks.bayesian(hypernet="mean_field"))
    before = model.get_weights()
    x, y = networks.data(4)
    with pytest.raises(ValueError, match=f"Expected `{next(iter(arguments))}`"):
        model.fit(x, y, validation_data=(x, y), verbose=0, **arguments)
    for now, then in zip(model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(now, then)


@pytest.mark.parametrize("seed", [1.5, -1, "a", True])
def test_the_seed_of_a_callback_is_an_integer(seed, tmp_path):
    pytest.importorskip("tensorboard")
    with pytest.raises(ValueError, match="`seed` to be None or a non-negative"):
        callbacks.PosteriorTensorBoard(tmp_path, seed=seed)
