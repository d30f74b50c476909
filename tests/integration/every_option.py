"""Models with every public option, each run through everything that compiles it.

As a script:

- `every_option.py continue DIRECTORY` loads each `NAME.keras` and writes what it says;
- `every_option.py replicas [NAME ...]` takes each through two replicas.
"""

import json
import pathlib
import sys
import traceback

import keras
import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

import bhn_tf
from bhn_tf.hypernets import IAF, Chunked, MeanField, RealNVP
from bhn_tf.layers import WeightNormDense, WeightNormGRU, WeightNormLSTM
from bhn_tf.likelihoods import Bernoulli, Categorical, Gaussian, Standardized
from tests import networks

NUM_ROWS = 10
ASKED = {"num_samples": 3, "seed": 1, "verbose": 0}
SMALL = {"num_layers": 2, "hidden_units": (4,)}


def network(num_outputs=networks.NUM_CLASSES, **kwargs):
    inputs = keras.Input((networks.NUM_FEATURES,), name="features")
    hidden = WeightNormDense(4, activation="relu", **kwargs)(inputs)
    return keras.Model(inputs, WeightNormDense(num_outputs)(hidden))


def with_elements(num_outputs=networks.NUM_CLASSES):
    """An output with two elements per row, so that `reduction` matters."""
    inputs = keras.Input((networks.NUM_FEATURES,), name="features")
    outputs = WeightNormDense(2 * num_outputs)(inputs)
    return keras.Model(inputs, keras.layers.Reshape((2, num_outputs))(outputs))


def two_outputs():
    inputs = keras.Input((networks.NUM_FEATURES,), name="features")
    hidden = WeightNormDense(4, activation="relu")(inputs)
    outputs = {
        "kind": WeightNormDense(networks.NUM_CLASSES, name="kind")(hidden),
        "size": WeightNormDense(1, name="size")(hidden),
    }
    return keras.Model(inputs, outputs)


def recurrent():
    """The features of a row as a sequence, read both ways and then again."""
    inputs = keras.Input((networks.NUM_FEATURES,), name="features")
    hidden = keras.layers.Reshape((networks.NUM_FEATURES, 1))(inputs)
    hidden = keras.layers.Masking(0.5)(hidden)
    gru = WeightNormGRU(2, return_sequences=True)
    hidden = keras.layers.Bidirectional(gru)(hidden)
    hidden = WeightNormLSTM(3, random="rank_one")(hidden)
    return keras.Model(inputs, WeightNormDense(networks.NUM_CLASSES)(hidden))


def classes(x):
    return np.argmax(x[:, : networks.NUM_CLASSES], axis=1)


def of_elements(x):
    return np.stack([classes(x), classes(-x)], axis=1)


def yes_or_no(x):
    return (x[:, : networks.NUM_CLASSES] > 0).astype("float32")


def targets(x):
    return x[:, :1] + 0.1


def far_targets(x):
    return 300 + 40 * x[:, :1]


def ignored(x):
    labels = of_elements(x)
    labels[::3, 0] = 255
    return labels


def both(x):
    return {"kind": classes(x), "size": x[:, 0]}


def far_both(x):
    return {"kind": classes(x), "size": far_targets(x)}


def case(primary=network, labels=classes, likelihood=None, compiled=None, **model):
    """How a model is made: the network, p(y|x), what else it and `compile` are given;
    and its labels."""

    def make():
        arguments = {"num_examples": NUM_ROWS, "hypernet": MeanField(), **model}
        made = bhn_tf.BayesianHypernet(
            primary(), likelihood=likelihood or "categorical", **arguments
        )
        made.compile(keras.optimizers.SGD(0.01), jit_compile=False, **(compiled or {}))
        return made

    return make, labels


CLIP = (0.001, 0.999)

#: Functions that return `(make, labels)`, as an instance must not serve two models.
#: Unrelated options share a model.
CASES = {
    "categorical clip, train_samples, prior_loc, prior_stddev, kl_weight": lambda: case(
        likelihood=Categorical(clip=CLIP),
        compiled={"train_samples": 3, "kl_weight": 0.5},
        prior_loc=0.5,
        prior_stddev=2.0,
    ),
    "categorical ignore_class, iaf, three draws a batch": lambda: case(
        with_elements,
        ignored,
        Categorical(True, ignore_class=255),
        compiled={"per_example_noise": 3},
        hypernet=IAF(**SMALL, initial_stddev=0.2),
    ),
    "categorical clip and mean, realnvp": lambda: case(
        with_elements,
        of_elements,
        Categorical(True, clip=CLIP, reduction="mean"),
        hypernet=RealNVP(**SMALL, initial_mean=0.5),
    ),
    "bernoulli clip, per_example_noise": lambda: case(
        labels=yes_or_no,
        likelihood=Bernoulli(clip=CLIP),
        compiled={"per_example_noise": True, "train_samples": 2},
    ),
    "bernoulli mean, random none": lambda: case(
        lambda: network(random="none"), yes_or_no, Bernoulli(reduction="mean")
    ),
    "gaussian stddev, prior, random kernel": lambda: case(
        lambda: network(1, random="kernel"),
        targets,
        Gaussian(0.3),
        prior=tfp.distributions.Laplace(0.0, 1.0),
    ),
    "gaussian trainable, random kernel_and_bias, eval_samples": lambda: case(
        lambda: network(1, random="kernel_and_bias"),
        targets,
        Gaussian(trainable=True),
        {"eval_samples": 0},
    ),
    "gaussian heteroscedastic, random scale_and_bias": lambda: case(
        lambda: network(2, random="scale_and_bias"),
        targets,
        Gaussian(heteroscedastic=True),
    ),
    "chunked realnvp, prior_loc trained": lambda: case(
        hypernet=Chunked(chunk_size=3, **SMALL),
        prior_loc="trained",
        prior_stddev=0.5,
    ),
    "chunked iaf, prior Trained, per_example_noise": lambda: case(
        lambda: network(random="scale_and_bias"),
        compiled={"per_example_noise": True},
        hypernet=Chunked("iaf", chunk_size=4, **SMALL),
        prior=bhn_tf.priors.Trained(0.3),
    ),
    "prior_stddev learned, realnvp": lambda: case(
        hypernet=RealNVP(**SMALL), prior_stddev="learned", prior_loc=0.5
    ),
    "prior_stddev learned_per_layer, per_example_noise": lambda: case(
        lambda: network(random="scale_and_bias"),
        compiled={"per_example_noise": True, "kl_weight": 0.5},
        prior_stddev="learned_per_layer",
    ),
    "gaussian mean, prior_loc of each, seed": lambda: case(
        labels=lambda x: x[:, :3],
        likelihood=Gaussian(reduction="mean"),
        prior_loc=np.linspace(0, 1, 7),
        seed=5,
    ),
    "standardized": lambda: case(
        lambda: network(1), far_targets, Standardized(Gaussian(trainable=True))
    ),
    "normalize_targets": lambda: case(
        lambda: network(1), far_targets, "gaussian", normalize_targets=True
    ),
    "recurrent layers, prior_loc unit_inputs, per_example_noise": lambda: case(
        recurrent, compiled={"per_example_noise": True}, prior_loc="unit_inputs"
    ),
    "normalize_targets, several outputs": lambda: case(
        two_outputs,
        far_both,
        {"kind": Categorical(), "size": Gaussian(trainable=True)},
        normalize_targets=True,
    ),
    "several outputs, loss_weights": lambda: case(
        two_outputs,
        both,
        {"kind": Categorical(clip=CLIP), "size": Gaussian(trainable=True)},
        {"loss_weights": {"kind": 2.0, "size": 0.5}},
    ),
}

#: What replicas could do each in its own way: noise, what is trained beside the
#: networks, sums over elements, outputs and draws.
OF_REPLICAS = (
    "categorical ignore_class, iaf, three draws a batch",
    "chunked iaf, prior Trained, per_example_noise",
    "several outputs, loss_weights",
)


def made(name):
    keras.utils.set_random_seed(1)
    make, labels = CASES[name]()
    x, _ = networks.data(NUM_ROWS)
    return make(), x, labels(x)


def fit(model, x, y):
    """History of compiled training and validation, in batches that do not divide."""
    arguments = {"batch_size": 4, "verbose": 0, "shuffle": False}
    return model.fit(x, y, validation_data=(x, y), **arguments).history


def says(model, x, y):
    """A trained model's answers, by names that tell what was asked."""
    answers = {
        "evaluate": model.evaluate(x, y, return_dict=True, batch_size=4, **ASKED),
        "predict": model.predict(x, batch_size=4, **ASKED),
        "samples": model.predict_samples(x, **ASKED),
        "uncertainty": model.predict_uncertainty(x, **ASKED),
        "centre": model.predict(x, num_samples=0, verbose=0),
        "on batch": model.predict_on_batch(x, num_samples=3, seed=1),
        "scales": model.sample_scales(3, seed=1),
        "prior": float(model.prior.log_prob(model.sample_scales(1, seed=1)[0]))
        if model.num_random
        else 0.0,
        "elbo": list(model.elbo(x, y, num_samples=3, seed=1)),
        "kl_weight": model.kl_weight,
    }
    return dict(_flat(answers))


def _flat(values, path=""):
    if isinstance(values, dict):
        values = values.items()
    elif isinstance(values, list | tuple):
        values = enumerate(values)
    else:
        yield path, np.asarray(values)
        return
    for name, value in values:
        yield from _flat(value, f"{path}/{name}")


def main(task, *arguments):
    if task == "continue":
        directory, *names = arguments
        directory = pathlib.Path(directory)
        for name in names:
            model = keras.saving.load_model(directory / f"{name}.keras")
            # Compares compiled with eager answers.
            model.run_eagerly = True
            _, labels = CASES[name]()
            x, _ = networks.data(NUM_ROWS)
            answers = says(model, x, labels(x))
            trained = model.train_on_batch(x, labels(x), return_dict=True)
            answers |= dict(_flat({"trained": trained}))
            np.savez(directory / f"{name}.npz", **answers)
        return
    cpu = tf.config.list_physical_devices("CPU")[0]
    half = tf.config.LogicalDeviceConfiguration()
    tf.config.set_logical_device_configuration(cpu, [half, half])
    strategy = tf.distribute.MirroredStrategy(
        ["CPU:0", "CPU:1"],
        cross_device_ops=tf.distribute.ReductionToOneDevice(),
    )
    failures = {}
    for name in arguments or CASES:
        try:
            _as_one_device(name, strategy)
        except Exception:
            failures[name] = traceback.format_exc()
    print("\n" + json.dumps({"ran": list(arguments or CASES), "failures": failures}))


def _as_one_device(name, strategy):
    """Two replicas train, and answer what one device answers with their weights."""
    with strategy.scope():
        two, x, y = made(name)
    history = fit(two, x, y)
    assert np.isfinite(list(history.values())).all(), history
    one, _, _ = made(name)
    one.run_eagerly = True
    one.set_weights([keras.ops.convert_to_numpy(v) for v in two.weights])
    found, expected = (
        {
            "evaluate": model.evaluate(x, y, return_dict=True, batch_size=4, **ASKED),
            "predict": model.predict(x, batch_size=4, **ASKED),
        }
        for model in (two, one)
    )
    expected = dict(_flat(expected))
    for path, values in _flat(found):
        np.testing.assert_allclose(
            values, expected[path], rtol=1e-4, atol=1e-5, err_msg=path
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
