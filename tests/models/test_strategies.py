"""What a model refuses in a strategy's scope, and on several workers."""

import keras
import pytest
import tensorflow as tf

import bhn_tf
from bhn_tf import keras_adapter
from bhn_tf.data_feeds import feed_of
from bhn_tf.models import answer_loop, workers
from tests import networks


@pytest.fixture
def strategy():
    return tf.distribute.OneDeviceStrategy("CPU:0")


def network(layer=None):
    first = layer or bhn_tf.layers.WeightNormDense(4)
    inputs = keras.Input((networks.NUM_FEATURES,))
    return keras.Sequential([inputs, first, bhn_tf.layers.WeightNormDense(1)])


def layer_of_elsewhere():
    layer = keras.layers.Dense(4, name="elsewhere")
    layer.build((None, networks.NUM_FEATURES))
    return layer


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (lambda: (network(layer_of_elsewhere()), "mean_field"), "elsewhere/kernel"),
        (
            lambda: (
                network(),
                "mean_field",
                bhn_tf.likelihoods.Gaussian(trainable=True, name="noise"),
            ),
            "noise/log_stddev",
        ),
    ],
)
def test_weights_made_outside_are_refused(strategy, arguments, name):
    made_outside = arguments()
    with strategy.scope():
        model = bhn_tf.BayesianHypernet(*made_outside)
        with pytest.raises(ValueError, match=f"'{name}' was made outside .*inside"):
            model.compile("sgd")


def test_what_is_frozen_may_come_from_outside(strategy):
    layer = layer_of_elsewhere()
    layer.trainable = False
    with strategy.scope():
        model = bhn_tf.BayesianHypernet(network(layer), "mean_field", "gaussian")
        model.compile("sgd", run_eagerly=False)
    x, _ = networks.data(8)
    model.fit(x, x[:, :1], verbose=0)


# -- several workers -------------------------------------------------------------------


@pytest.fixture
def several_workers(monkeypatch):
    """Lets this process take itself for one of several."""
    for module in (keras_adapter, workers):
        monkeypatch.setattr(module, "spans_processes", lambda strategy: True)


def test_several_steps_at_once_are_refused_on_workers(several_workers):
    model = networks.bayesian(hypernet="mean_field")
    with pytest.raises(ValueError, match="`steps_per_execution=2` fails on several"):
        model.compile("sgd", steps_per_execution=2)
    model.compile("sgd", steps_per_execution=1)


def test_units_of_a_share_are_refused_on_workers(several_workers):
    model = bhn_tf.BayesianHypernet(
        network(), "mean_field", "gaussian", normalize_targets=True
    )
    model.compile("sgd")
    x, _ = networks.data(8)
    all_rows = tf.data.Dataset.from_tensor_slices((x, x[:, :1])).batch(4)
    options = tf.data.Options()
    policies = tf.data.experimental.AutoShardPolicy
    options.experimental_distribute.auto_shard_policy = policies.OFF
    share = all_rows.with_options(options)
    with pytest.raises(ValueError, match="a share of the rows.*`model.likelihood.adap"):
        model.fit(share)
    model._learn_from_feed(feed_of(all_rows), 0.0)
    assert model.likelihood.is_adapted
    model._learn_from_feed(feed_of(share), 0.0)


def test_a_worker_lost_between_batches_is_named(several_workers):
    lost = tf.errors.UnavailableError(
        None,
        None,
        "{{function_node __wrapped__CollectiveReduceV2}} Collective ops is aborted by: "
        "recvmsg:Connection reset by peer\nAdditional GRPC error information",
    )

    def function(batch):
        raise lost

    model = networks.bayesian(hypernet="mean_field")
    with pytest.raises(workers.WorkerLost, match="time: Collective .* by peer. Start"):
        answer_loop.answer_batches(model, function, networks.data(8)[0])
