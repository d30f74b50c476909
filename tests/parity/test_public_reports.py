"""What users of Keras and its family have reported, tried on this library.

Each test names the report in its docstring. Where equality is meant, stock Keras runs
beside our model on the same weights.
"""

import keras
import numpy as np
import pytest
import tensorflow as tf

import bhn_tf
from bhn_tf.layers import WeightNormDense
from bhn_tf.likelihoods import Categorical
from tests.keras_versions import needs_keras
from tests.parity.twins import (
    CLASSES,
    FEATURES,
    OURS,
    ROWS,
    X,
    Y,
    assert_same_logs,
    assert_same_weights,
    bayesian,
    crossentropy,
    dense,
    network_of,
    twins,
)

ARGUMENTS = {"shuffle": False, "verbose": 0}


class Batches(keras.utils.PyDataset):
    """Batches of several sizes, the last of one row; it notes what it is asked for."""

    sizes = (5, 4, 2, 1)

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.asked_for = []

    def __len__(self):
        return len(self.sizes)

    def __getitem__(self, index):
        self.asked_for.append(index)
        start = sum(self.sizes[:index])
        rows = slice(start, start + self.sizes[index])
        return X[rows], Y[rows]


def of_two_outputs(suffix=""):
    """The keys of the outputs are the names of their layers without the suffix."""
    inputs = keras.Input((FEATURES,))
    hidden = keras.layers.Dense(4)(inputs)
    outputs = {
        key: WeightNormDense(CLASSES, random="none", name=key + suffix)(hidden)
        for key in "ab"
    }
    return keras.Model(inputs, outputs)


LABELS_OF_TWO = {"a": Y, "b": Y[::-1]}


# -- data adapters ---------------------------------------------------------------------


@pytest.mark.parametrize("call", ["fit", "evaluate"])
def test_a_py_dataset_is_asked_for_no_more_batches(call):
    """keras-team/keras#17946: batch 0 is made twice, and the data run out."""
    asked_for = []
    for model in twins():
        # Otherwise the rows are counted, in one more pass.
        model.num_examples = ROWS
        batches = Batches()
        kwargs = ARGUMENTS if call == "fit" else {"verbose": 0}
        getattr(model, call)(batches, **kwargs)
        asked_for.append(batches.asked_for)
    assert asked_for[1] == asked_for[0]


def test_a_generator_may_yield_lists():
    """tensorflow/tensorflow#26081: "should be a tuple", and all numbers printed."""

    def batches(kind):
        for rows in (slice(5), slice(5, ROWS)):
            yield kind([X[rows], Y[rows]])

    stock, model = twins()
    model.num_examples = ROWS
    arguments = {**ARGUMENTS, "steps_per_epoch": 2}
    expected = stock.fit(batches(tuple), **arguments).history
    assert_same_logs(expected, model.fit(batches(list), **arguments).history)
    assert_same_weights(stock, model)
    arguments = {"steps": 2, "verbose": 0}
    expected = stock.evaluate(batches(tuple), return_dict=True, **arguments)
    logs = model.evaluate(batches(list), return_dict=True, **arguments)
    assert_same_logs(expected, logs)
    answers = model.predict(batches(list), **arguments)
    np.testing.assert_allclose(answers, model.predict(X, verbose=0), rtol=1e-5)


@pytest.mark.few(1)
@pytest.mark.parametrize("steps", [1, 4])
def test_as_many_validation_steps_as_there_are_batches(steps):
    """keras-team/keras#19835: validation of a PyDataset yields no logs at all."""
    stock, model = twins(metrics=["accuracy"])
    expected, found = (
        each.fit(
            X,
            Y,
            epochs=2,
            validation_data=Batches(),
            validation_steps=steps,
            **ARGUMENTS,
        ).history
        for each in (stock, model)
    )
    assert len(found["val_loss"]) == 2
    assert_same_logs(expected, found)


# -- weights ---------------------------------------------------------------------------


@pytest.mark.parametrize("ours", OURS)
def test_class_weights_in_an_array_are_refused_in_one_line(ours):
    """DanielLin1986/Function-level-Vulnerability-Detection#7: `'numpy.ndarray' object
    has no attribute 'keys'`, of what scikit-learn's `compute_class_weight` returns."""
    weights = np.array([1.0, 2.0, 3.0])
    stock, model = twins(ours=OURS[ours])
    with pytest.raises(ValueError, match=r"ndarray.*dict\(enumerate\(class_weight\)\)"):
        model.fit(X, Y, class_weight=weights, verbose=0)
    arguments = {**ARGUMENTS, "class_weight": dict(enumerate(weights))}
    expected = stock.fit(X, Y, **arguments).history
    assert_same_logs(expected, model.fit(X, Y, **arguments).history)
    assert_same_weights(stock, model)


@pytest.mark.few(1)
@pytest.mark.parametrize("rows_of_b", [ROWS // 2, 0])
def test_a_batch_in_which_an_output_has_no_weight(rows_of_b):
    """keras-team/keras#13113: a 0 among the weights of an output makes it NaN."""

    def ours(network):
        return bayesian(network, likelihood=dict.fromkeys("ab", "categorical"))

    weight = {
        "a": np.ones(ROWS, "float32"),
        "b": (np.arange(ROWS) >= ROWS - rows_of_b).astype("float32"),
    }
    stock, model = twins(
        of_two_outputs,
        ours,
        {key: crossentropy() for key in "ab"},
        weighted_metrics={key: ["accuracy"] for key in "ab"},
    )
    arguments = {**ARGUMENTS, "batch_size": ROWS // 2, "epochs": 2}
    expected, found = (
        each.fit(X, LABELS_OF_TWO, sample_weight=weight, **arguments).history
        for each in (stock, model)
    )
    for key in "ab":
        wanted = expected.pop(f"{key}_loss")
        np.testing.assert_allclose(found[f"{key}_nll"], wanted, rtol=1e-5)
    assert_same_logs(expected, found)
    assert_same_weights(stock, model)


# -- masks -----------------------------------------------------------------------------

# Rows of 1, 2, 3 and 4 words.
WORDS = np.array([[1, 0, 0, 0], [1, 2, 0, 0], [2, 2, 1, 0], [1, 2, 2, 1]] * 3)
IS_REAL = WORDS > 0
TAGS = np.where(IS_REAL, WORDS - 1, 0)


def tagger():
    return keras.Sequential(
        [
            keras.Input((4,), dtype="int32"),
            keras.layers.Embedding(3, 4, mask_zero=True),
            keras.layers.Dense(4),
            keras.layers.ReLU(),
            keras.layers.Dropout(0.0),
            WeightNormDense(2, random="none"),
            keras.layers.Activation("linear", dtype="float32"),
        ]
    )


CASTS = needs_keras("3.14", "Keras itself loses masks in casts before 3.14.")


@pytest.mark.parametrize(
    "policy",
    [
        "float32",
        pytest.param("mixed_bfloat16", marks=CASTS),
        pytest.param("mixed_float16", marks=CASTS),
    ],
)
def test_masks_pass_layers_without_weights_and_casts(policy):
    """tensorflow/tensorflow#36894: `ReLU` drops the mask without a word."""
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(policy)
    try:
        model = bayesian(tagger())
        model.compile("sgd", metrics=["accuracy"], run_eagerly=True)
    finally:
        keras.config.set_dtype_policy(before)
    results = []
    for tags in (TAGS, np.where(IS_REAL, TAGS, 1)):
        model.num_examples = len(WORDS)
        results.append(model.evaluate(WORDS, tags, verbose=0, return_dict=True))
    assert results[0] == results[1]
    entropy = model.predict_uncertainty(WORDS, verbose=0)["predictive_entropy"]
    np.testing.assert_array_equal(np.isnan(entropy), ~IS_REAL)


@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_what_is_measured_does_not_depend_on_the_batches(reduction):
    """tensorflow/tensorflow#38596: a small last batch counts as much as the others.

    With masks it still does in stock Keras, whose means are over a batch's elements.
    """
    model = bayesian(tagger(), likelihood=Categorical(reduction=reduction))
    model.compile("sgd", metrics=["accuracy"], run_eagerly=True)
    model.num_examples = len(WORDS)
    expected, *others = (
        model.evaluate(WORDS, TAGS, batch_size, verbose=0, return_dict=True)
        for batch_size in (12, 11, 5)
    )
    for logs in others:
        assert logs == pytest.approx(expected, rel=1e-5)


# -- steps and callbacks ---------------------------------------------------------------


class Mine(bhn_tf.BayesianHypernet):
    """A user's subclass that logs more."""

    def train_step(self, data):
        logs = super().train_step(data)
        return {**logs, "twice": 2 * logs["loss"]}

    def test_step(self, data):
        logs = super().test_step(data)
        return {**logs, "twice": 2 * logs["loss"]}


@pytest.mark.few(1)
@pytest.mark.parametrize("run_eagerly", [True, False])
def test_logs_of_a_step_of_ones_own_are_kept(run_eagerly):
    """keras-team/keras-core#485: history has `loss` and `val_loss` alone."""
    model = Mine(dense())
    model.compile("sgd", run_eagerly=run_eagerly, jit_compile=False)
    arguments = {**ARGUMENTS, "batch_size": 5, "epochs": 2}
    history = model.fit(X, Y, validation_data=(X, Y), **arguments).history
    for prefix in ("", "val_"):
        expected = 2 * np.array(history[f"{prefix}loss"])
        np.testing.assert_allclose(history[f"{prefix}twice"], expected, rtol=1e-5)
    logs = model.evaluate(X, Y, 5, verbose=0, return_dict=True)
    assert float(logs["twice"]) == pytest.approx(2 * logs["loss"])


class AsInTheGuide(bhn_tf.BayesianHypernet):
    """A user's subclass that trains as Keras's guide shows."""

    def train_step(self, data):
        x, y = data
        return {"loss": self.compute_loss(y=y, y_pred=self(x, training=True))}


def test_a_step_with_a_loss_of_its_own_is_told_what_to_do():
    model = AsInTheGuide(dense())
    model.compile("sgd", run_eagerly=True)
    with pytest.raises(ValueError, match=r"the bound.*super\(\)\.train_step\(data\)"):
        model.fit(X, Y, **ARGUMENTS)
    with pytest.raises(ValueError, match="negative log-likelihood"):
        bhn_tf.baselines.Deterministic(dense()).compute_loss(X, Y)


def test_metrics_of_outputs_by_the_keys_of_a_dictionary():
    """keras-team/keras#21675: losses go by the key of an output, and metrics do not."""
    network = of_two_outputs("_of_network")
    model = bayesian(network, likelihood=dict.fromkeys("ab", "categorical"))
    metrics = {"a": ["accuracy", "sparse_categorical_crossentropy"], "b": "accuracy"}
    model.compile("sgd", metrics=metrics, loss_weights={"a": 1.0, "b": 0.5})
    model.run_eagerly = True
    model.train_on_batch(X, LABELS_OF_TWO)
    logs = model.evaluate(X, LABELS_OF_TWO, verbose=0, return_dict=True)
    means = model.predict(X, verbose=0)
    for key, labels in LABELS_OF_TWO.items():
        accuracy = np.mean(np.argmax(means[key], axis=-1) == labels)
        assert logs[f"{key}_accuracy"] == pytest.approx(accuracy)
    found = logs["a_sparse_categorical_crossentropy"]
    assert found == pytest.approx(logs["a_nll"], rel=1e-4)


RAISES = needs_keras("3.13", "`TerminateOnNaN` raises nothing before Keras 3.13.")


@pytest.mark.few(1)
@pytest.mark.parametrize("raises", [False, pytest.param(True, marks=RAISES)])
def test_a_loss_of_nan_ends_training_and_leaves_settings_and_backup(raises, tmp_path):
    """keras-team/keras#21771: `TerminateOnNaN` lets the backup be deleted."""

    class Poison(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            if epoch == 1:
                kernel = network_of(self.model).trainable_variables[0]
                kernel.assign(np.nan * kernel)

    model = bayesian(dense())
    model.compile("sgd", run_eagerly=True)
    callbacks = [
        bhn_tf.callbacks.KLAnnealing(0.0, epochs=4),
        keras.callbacks.BackupAndRestore(tmp_path),
        Poison(),
        keras.callbacks.TerminateOnNaN(**({"raise_error": True} if raises else {})),
    ]
    arguments = {**ARGUMENTS, "epochs": 4, "callbacks": callbacks}
    if raises:
        with pytest.raises(RuntimeError, match="NaN or Inf loss"):
            model.fit(X, Y, **arguments)
    else:
        assert len(model.fit(X, Y, **arguments).history["loss"]) == 2
    assert (tmp_path / "latest.weights.h5").exists() == raises
    assert float(tf.convert_to_tensor(model.kl_weight)) == 1.0
