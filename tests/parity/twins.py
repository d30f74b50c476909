"""A stock Keras model beside one of ours without noise, on the same weights."""

import keras
import numpy as np

import bhn_tf
from bhn_tf.layers import WeightNormDense

ROWS, FEATURES, CLASSES = 12, 4, 3
X = np.random.default_rng(0).normal(size=(ROWS, FEATURES)).astype("float32")
Y = np.argmax(X[:, :CLASSES], axis=1)
RATE = 0.5


def dense(sparse=False):
    """A network for 4 numbers, in which this library's layers are not random."""
    return keras.Sequential(
        [
            keras.Input((FEATURES,), sparse=sparse),
            keras.layers.Dense(5, activation="relu"),
            WeightNormDense(CLASSES, random="none"),
        ]
    )


def crossentropy(**kwargs):
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True, **kwargs)


def bayesian(network, **kwargs):
    """D = 0: no noise, and a KL of 0."""
    return bhn_tf.BayesianHypernet(network, **kwargs)


#: Our models that have to train as stock Keras does.
OURS = {"bayesian": bayesian, "deterministic": bhn_tf.baselines.Deterministic}


def twins(make=dense, ours=bayesian, loss=None, optimizer=None, seed=0, **kwargs):
    """Returns a stock model and one of ours, compiled, with the same weights.

    Args:
        make: Makes the network of each.
        ours: Makes our model of a network.
        loss: Stock Keras's loss; the likelihood is the one that it belongs to.
        optimizer: Makes the optimizer of each.
        seed: Seed of the weights.
        **kwargs: Arguments of both calls of `compile`.
    """
    optimizer = optimizer or (lambda: keras.optimizers.SGD(RATE))
    kwargs = {"run_eagerly": True, "jit_compile": False, **kwargs}

    def fresh_kwargs():
        metrics = {k: kwargs[k] for k in kwargs if k.endswith("metrics")}
        copies = {k: keras.tree.map_structure(_copied, v) for k, v in metrics.items()}
        return {**kwargs, **copies}

    keras.utils.set_random_seed(seed)
    stock = make()
    stock.compile(optimizer(), loss or crossentropy(), **fresh_kwargs())
    keras.utils.set_random_seed(seed)
    model = ours(make())
    model.compile(optimizer(), **fresh_kwargs())
    assert_same_weights(stock, model)
    return stock, model


def _copied(metric):
    if isinstance(metric, keras.metrics.Metric):
        return type(metric).from_config(metric.get_config())
    return metric


def network_of(model):
    """The network in one of our models."""
    return model.posterior.network


def assert_same_weights(stock, model, atol=1e-5):
    wanted, found = stock.get_weights(), network_of(model).get_weights()
    assert len(wanted) == len(found)
    for value, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(value, other, rtol=1e-5, atol=atol)


def assert_same_logs(stock, model, factor=1.0):
    """Every number that stock Keras logs is in our logs.

    Args:
        factor: What our loss is of stock Keras's: its loss of sequences is the mean
            over elements, and ours the sum over those of an example.
    """
    assert set(stock) <= set(model)
    for name, wanted in stock.items():
        scale = factor if name.endswith("loss") else 1.0
        np.testing.assert_allclose(
            model[name], scale * np.asarray(wanted), rtol=1e-5, atol=1e-6, err_msg=name
        )


def probabilities(logits):
    return keras.tree.map_structure(
        lambda leaf: keras.ops.convert_to_numpy(keras.ops.softmax(leaf)), logits
    )
