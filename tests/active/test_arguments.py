"""Mistakes are explained before anything is labelled or trained."""

import keras
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import tensorflow as tf

import bhn_tf
from tests import networks
from tests.active.learners import INITIAL, learner, make, nobody, pool


def frame(**columns):
    return pd.DataFrame({"size": np.arange(40), **columns})


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"acquisition": "bold"}, "Unknown acquisition 'bold'.*bald"),
        ({"query_size": 0}, "query_size.*at least 1"),
        ({"query_size": -3}, "query_size.*at least 1"),
        ({"candidate_size": 2}, "candidate_size` is 2.*query_size` = 4"),
        ({"num_samples": -1}, "num_samples"),
        ({"warm_start": "reset"}, "warm_start.*first_weights"),
        ({"seed": -1}, "seed"),
        ({"initial_ids": []}, "at least one integer index"),
        ({"initial_ids": [0.5]}, "integer index"),
        ({"initial_ids": [1, 2, 1]}, "id 1 more than once"),
        ({"initial_ids": [0, 40]}, "outside the pool of 40 rows.*40"),
        ({"initial_ids": [-1]}, "Expected 0 to 39"),
        ({"pool_x": np.zeros((0, 4))}, "pool_x` is empty"),
        ({"pool_x": "images"}, "pool_x` is of type str"),
        ({"pool_x": (row for row in pool()[0])}, r"generator.*np.concatenate\(list"),
        ({"pool_x": [pool()[0], None]}, "pool_x` is of type NoneType"),
        ({"pool_x": {}}, "pool_x` is empty"),
        ({"pool_x": np.float32(1)}, "a single number or object"),
        ({"pool_x": scipy.sparse.eye(40).tocsr()}, "pool_x` is of type csr_"),
        ({"pool_x": tf.sparse.eye(40)}, "pool_x` is of type SparseTensor"),
        ({"pool_x": tf.ragged.constant([[1], [1, 2]])}, "type RaggedTensor"),
        ({"pool_x": frame(kind=["a", "b"] * 20)}, "no numbers in column 'kind'.*code"),
        ({"pool_x": [np.zeros(3), np.zeros(4)]}, r"\[3, 4\] rows"),
        (
            {"pool_x": tf.data.Dataset.from_tensor_slices(np.zeros((0, 4))).batch(2)},
            "yields no row",
        ),
        ({"pool_x": tf.data.Dataset.range(3).batch(2).repeat()}, "endless"),
        ({"pool_x": tf.data.Dataset.range(3)}, "single numbers"),
        (
            {"pool_x": tf.data.Dataset.from_tensor_slices(pool()).batch(2)},
            "inputs alone",
        ),
        ({"fit_kwargs": {"validation_data": 1}}, "validation_data.*run"),
        ({"fit_kwargs": {"sample_weight": 1}}, "sample_weight"),
    ],
)
def test_an_argument_without_sense(kwargs, message):
    with pytest.raises(ValueError, match=message):
        learner(**kwargs)


@pytest.mark.parametrize(
    ("make_model", "message"),
    [
        (networks.plain, "Sequential.*baselines"),
        (lambda: None, "NoneType"),
        (lambda: networks.bayesian(), "not compiled"),
    ],
)
def test_a_model_that_cannot_be_used_is_refused_before_anybody_labels(
    make_model, message
):
    def label_fn(ids):
        raise AssertionError("a label was asked for")

    with pytest.raises(ValueError, match=message):
        learner(make_model=make_model, label_fn=label_fn).run(1)


X = pool()[0]


WITH_NAN = np.where(np.arange(40)[:, None] == INITIAL[2], np.nan, X)


@pytest.mark.parametrize(
    ("make_network", "kwargs", "message"),
    [
        (networks.sequential, {"pool_x": np.pad(X, [(0, 0), (0, 1)])}, "5"),
        (networks.sequential, {"pool_x": WITH_NAN}, "NaN"),
        (networks.Subclassed, {"pool_x": WITH_NAN}, "NaN"),
        (
            networks.sequential,
            {"pool_x": tf.data.Dataset.from_tensor_slices(X)},
            "rows first",
        ),
        (networks.sequential, {"fit_kwargs": {"epoch": 3}}, r"\['epoch'\].*'epochs'"),
    ],
)
def test_what_the_model_cannot_take_is_refused_before_anybody_labels(
    make_network, kwargs, message
):
    def make_model():
        likelihood = bhn_tf.likelihoods.Categorical(from_logits=True)
        model = bhn_tf.BayesianHypernet(make_network(), "mean_field", likelihood)
        return networks.compiled(model, "sgd")

    with pytest.raises(ValueError, match=message):
        learner(make_model=make_model, label_fn=nobody, **kwargs).run(1)


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (lambda ids: 1, r"shape \[\]"),
        (lambda ids: np.zeros(len(ids) + 1, int), "one label for each id"),
        (lambda ids: np.array(["seven"] * len(ids)), "class numbers"),
        (lambda ids: np.zeros((len(ids), 1), int), "those before"),
        (lambda ids: np.full(len(ids), np.nan), "NaN"),
        (lambda ids: np.full(len(ids), 7), "class numbers from 0 to 2"),
    ],
)
def test_labels_that_make_no_sense_are_asked_for_again(labels, message, tmp_path):
    """Nothing of them is recorded, neither in memory nor on disk."""
    _, y = pool()
    good = [True, False]

    def label_fn(ids):
        return y[ids] if not good or good.pop(0) else labels(ids)

    method = "deterministic" if "from 0 to 2" in message else "quick"
    found = learner(method, label_fn=label_fn, directory=tmp_path)
    with pytest.raises(ValueError, match=message):
        found.run(1)
    before = (tmp_path / "labels.npy").read_bytes()
    np.testing.assert_array_equal(found.labels, y[found.labelled_ids])
    # A restarted learner and this one ask for the same rows.
    again = learner(method, directory=tmp_path)
    assert (tmp_path / "labels.npy").read_bytes() == before
    np.testing.assert_array_equal(found.labelled_ids, again.labelled_ids)
    assert again.run(1)[0]["ids"] == found._choose().tolist()


@pytest.mark.parametrize("has_folder", [True, False])
def test_labels_outlive_a_training_that_fails(has_folder, tmp_path):
    y = pool()[1]
    asked = []

    def label_fn(ids):
        asked.append(ids)
        return y[ids]

    settings = dict(label_fn=label_fn, fit_kwargs={"epochs": "two"})
    if has_folder:
        settings["directory"] = tmp_path
    found = learner("deterministic", **settings)
    with pytest.raises((TypeError, ValueError)):
        found.run(1)
    np.testing.assert_array_equal(found.labels, y[found.labelled_ids])
    assert found.labelled_ids.tolist() == INITIAL and len(asked) == 1


def test_a_score_that_the_model_does_not_have():
    settings = dict(acquisition="epistemic_std", label_fn=nobody)
    with pytest.raises(ValueError, match="no score 'epistemic_std'.*mean_std"):
        learner("deterministic", **settings).run(1)
    with pytest.raises(ValueError, match=r"Expected one a row, \[36\]"):
        learner(acquisition=lambda samples: samples).run(1)


def test_several_outputs_are_refused_before_anybody_labels():
    def make_model():
        inputs = keras.Input((networks.NUM_FEATURES,))
        outputs = [keras.layers.Dense(3, name=name)(inputs) for name in "ab"]
        model = bhn_tf.baselines.Deterministic(
            keras.Model(inputs, outputs), likelihood=["categorical"] * 2
        )
        return networks.compiled(model, "sgd")

    with pytest.raises(ValueError, match=r"outputs \['a', 'b'\].*one label"):
        learner(make_model=make_model, label_fn=nobody).run(1)


def test_make_is_not_called_before_run():
    def make_model():
        raise AssertionError("a model was made")

    assert learner(make_model=make_model).model is None
    assert make()().compiled


def test_numpys_numbers_are_numbers(tmp_path):
    """They are written as JSON numbers, and count as the same configuration."""
    count, ids = np.int64, np.array(INITIAL)
    settings = dict(query_size=count(4), num_samples=count(5), seed=count(1))
    settings["fit_kwargs"] = {"epochs": count(3), "batch_size": count(8)}
    found = learner(
        directory=tmp_path, candidate_size=count(9), initial_ids=ids, **settings
    )
    history = found.run(1)
    again = learner(directory=tmp_path, candidate_size=9, label_fn=None)
    assert again.run(1) == history
    with pytest.raises(ValueError, match="another configuration"):
        learner(directory=tmp_path, candidate_size=9, fit_kwargs={"epochs": count(2)})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x, y: (x, y + 7), "class numbers from 0 to 2"),
        (lambda x, y: [x[:5], y], "5.* rows"),
        (lambda x, y: [x[:, :2], y], "shape"),
    ],
)
def test_validation_data_are_checked_before_anybody_labels(change, message):
    found = learner("deterministic", label_fn=nobody)
    with pytest.raises(ValueError, match=message):
        found.run(1, validation_data=change(*pool(20)))
