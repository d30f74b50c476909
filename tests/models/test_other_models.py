"""Other models than this library's, and data that are no arrays, meet a sentence."""

from types import SimpleNamespace

import keras
import pytest
import tensorflow as tf

import bhn_tf
from bhn_tf import baselines
from tests import networks


@pytest.mark.parametrize("call", [bhn_tf.diagnose, bhn_tf.conformal.calibrate])
def test_a_model_inside_of_what_was_given_is_named(call):
    x, y = networks.data(8)
    for name in ("model", "model_"):
        holder = SimpleNamespace(**{name: networks.bayesian()})
        with pytest.raises(TypeError, match=f"got SimpleNamespace.* its `{name}`"):
            call(holder, x, y)
    with pytest.raises(TypeError, match="`bhn_tf.from_keras` makes"):
        call(networks.plain(), x, y)
    with pytest.raises(TypeError, match="got NoneType.$"):
        call(None, x, y)


def test_calls_that_need_all_rows_ask_for_arrays():
    model = networks.compiled(networks.bayesian(num_examples=8))
    x, y = networks.data(8)
    batches = tf.data.Dataset.from_tensor_slices((x, y)).batch(4)
    for call in (
        model.elbo,
        lambda *data: bhn_tf.hamiltonian.hamiltonian_monte_carlo(model, *data),
        lambda *data: bhn_tf.diagnose(model, *data),
        lambda *data: bhn_tf.conformal.calibrate(model, *data),
    ):
        for data in ((batches,), (x,)):
            with pytest.raises(ValueError, match="Give the rows as arrays"):
                call(*data)


class OwnStep(keras.Sequential):
    """A network with a training step of its own."""

    def train_step(self, data):
        raise AssertionError


@pytest.mark.parametrize(
    "wrap",
    [
        lambda network: bhn_tf.BayesianHypernet(network, "mean_field"),
        lambda network: bhn_tf.from_keras(network, "mean_field"),
        baselines.Deterministic,
    ],
    ids=["bayesian", "from_keras", "baseline"],
)
def test_a_step_of_a_networks_own_is_not_left_out_silently(wrap):
    with pytest.warns(UserWarning, match=r"\['OwnStep.train_step'\] are not called"):
        wrap(OwnStep([keras.Input((4,)), keras.layers.Dense(3)]))
