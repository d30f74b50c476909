"""Which rows are asked for, in which order, and what the model learns from them."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import bhn_tf
from bhn_tf import active, baselines
from bhn_tf.active import evaluation
from bhn_tf.uncertainty import SCORES
from tests import networks
from tests.active import learners
from tests.active.learners import INITIAL, learner, pool

ROUNDS = 2


def assert_rounds(found, num_rounds, query_size=4):
    ids = found.labelled_ids
    assert ids[: len(INITIAL)].tolist() == INITIAL
    assert len(ids) == len(INITIAL) + num_rounds * query_size == len(set(ids))
    assert all(0 <= i < 40 for i in ids)


@pytest.mark.few(1)
@pytest.mark.parametrize("method", ["bhn", "dropout", "deterministic", "ensemble"])
def test_every_method_asks_and_learns(method, bhn_run):
    if method == "bhn":
        found, _ = bhn_run
        history = found.history
    else:
        found = learner(method)
        history = found.run(ROUNDS, validation_data=pool(20))
    assert_rounds(found, ROUNDS)
    _, y = pool()
    np.testing.assert_array_equal(found.labels, y[found.labelled_ids])
    assert [entry["round"] for entry in history] == [1, 2]
    assert [entry["num_labelled"] for entry in history] == [8, 12]
    ids = [i for entry in history for i in entry["ids"]]
    assert ids == found.labelled_ids[4:].tolist()
    # The returned model is the one that was measured.
    for entry in (found.initial_round, *history):
        assert {"loss", "accuracy", "val_nll", "val_accuracy"} <= set(entry["metrics"])
    mean = found.model.predict(pool(20)[0], num_samples=8, verbose=0)
    assert mean.shape == (20, networks.NUM_CLASSES)
    if method == "bhn":
        assert found.model.num_examples == 12
        networks.assert_identity(history[-1]["metrics"], 12)


@pytest.mark.few(1)
@pytest.mark.parametrize("acquisition", ["bald", "max_entropy", "mean_std"])
def test_the_highest_scores_are_asked_for(acquisition):
    found = learner("ensemble", acquisition=acquisition)
    found.run(0)
    samples = found.model.predict_samples(pool()[0], verbose=0)
    name = active.acquisition.ALIASES.get(acquisition, acquisition)
    scores = SCORES[name](samples)
    scores[INITIAL] = -1
    (entry,) = found.run(1)
    assert entry["ids"] == np.argsort(-scores)[:4].tolist()


@pytest.mark.slow
def test_a_function_scores_the_samples_of_all_candidates():
    shapes = []

    def certain(samples):
        shapes.append(samples.shape)
        return samples.mean(axis=1).max(axis=-1)

    found = learner("dropout", acquisition=certain, candidate_size=10)
    found.run(1)
    assert shapes == [(10, 5, networks.NUM_CLASSES)]
    assert_rounds(found, 1)


@pytest.mark.slow
def test_random_does_not_depend_on_the_model_and_does_not_predict(monkeypatch):
    plain = learner(acquisition="random")
    other = learner("dropout", acquisition="random", num_samples=3, candidate_size=8)
    for found in (plain, other):
        found.run(0)
        monkeypatch.setattr(found.model, "predict_uncertainty", None)
        monkeypatch.setattr(found.model, "predict_samples", None)
        found.run(1)
    np.testing.assert_array_equal(plain.labelled_ids, other.labelled_ids)


def test_ties_are_broken_by_the_seed():
    def all_equal(samples):
        return np.zeros(len(samples))

    def ids(seed):
        found = learner(acquisition=all_equal, seed=seed)
        return found.run(1)[0]["ids"]

    first = ids(1)
    assert first == ids(1) != ids(2)
    assert first != sorted(first)


@pytest.mark.slow
def test_bald_of_a_network_without_draws_is_random():
    # Its mutual information is exactly zero everywhere, without rounding noise.
    (entry,) = learner("deterministic", acquisition="bald").run(1)
    assert entry["ids"] != sorted(entry["ids"])


@pytest.mark.slow
def test_a_round_alone_equals_the_round_in_the_loop():
    whole = learner("bhn", warm_start=False)
    (expected,) = whole.run(1, validation_data=pool(20))
    alone = learner("bhn", warm_start=False, initial_ids=whole.labelled_ids)
    alone.run(0, validation_data=pool(20))
    assert alone.initial_round["metrics"] == pytest.approx(
        expected["metrics"], rel=1e-5
    )
    assert alone._choose().tolist() == whole._choose().tolist()


@pytest.mark.few(2)
@pytest.mark.parametrize("warm_start", [True, False, "first_weights"])
def test_where_a_round_starts(warm_start):
    made = []

    def make_model():
        model = learners.make("deterministic")()
        made.append(networks.weights_of(model)[0])
        return model

    found = learner(
        make_model=make_model, warm_start=warm_start, fit_kwargs={"epochs": 1}
    )
    found.run(0)
    trained = networks.weights_of(found.model)[0]
    found.run(2)
    iterations = int(found.model.optimizer.iterations)
    if warm_start is True:
        assert len(made) == 1 and iterations == 3
    else:
        assert len(made) == 3 and iterations == 1
        same = [np.array_equal(made[0], weights) for weights in made[1:]]
        assert same == [warm_start == "first_weights"] * 2
    assert not np.array_equal(trained, made[0])


def learner_with(make_optimizer, **kwargs):
    def make_model():
        model = baselines.Deterministic(networks.plain())
        return networks.compiled(model, make_optimizer(), run_eagerly=True)

    return learner(make_model=make_model, acquisition="random", **kwargs)


def scheduled(*args, **kwargs):
    rate = keras.optimizers.schedules.CosineDecay(*args, **kwargs)
    return keras.optimizers.SGD(rate)


def test_a_schedule_that_has_ended_before_a_round_is_warned_of():
    found = learner_with(lambda: scheduled(0.1, 3))
    with pytest.warns(UserWarning, match="rate is 0 after 3 steps.*warm_start"):
        found.run(1)


@pytest.mark.slow
def test_a_rate_of_0_that_does_not_stay_is_not_warned_of():
    """Warnings are errors here."""
    learner_with(lambda: scheduled(0.0, 90, warmup_target=0.1, warmup_steps=9)).run(1)
    to_zero = keras.callbacks.LearningRateScheduler(lambda epoch: 0.1 * (1 - epoch))
    fit_kwargs = {"epochs": 2, "callbacks": [to_zero]}
    learner_with(lambda: keras.optimizers.SGD(0.1), fit_kwargs=fit_kwargs).run(1)


@pytest.mark.slow
@pytest.mark.skipif(
    not hasattr(keras.optimizers, "MultiOptimizer"), reason="Keras has none before 3.15"
)
def test_an_optimizer_of_several_has_no_rate_of_its_own():
    kinds = keras.optimizers
    learner_with(lambda: kinds.MultiOptimizer(kinds.OptimizerMap(kinds.SGD(0.1)))).run(
        1
    )


def test_dictionaries_lists_and_data_sets_are_pools_too():
    x, y = pool()
    data_set = tf.data.Dataset.from_tensor_slices(x).batch(7)
    expected = learner()
    expected.run(1)
    found = learner(pool_x=data_set, candidate_size=40)
    found.run(1)
    assert set(found.labelled_ids) == set(expected.labelled_ids)
    several = active.pool.Pool({"a": x, "b": [y, tf.constant(x)]})
    rows = several.rows(np.array([5, 2]))
    np.testing.assert_array_equal(rows["a"], x[[5, 2]])
    np.testing.assert_array_equal(rows["b"][0], y[[5, 2]])
    np.testing.assert_array_equal(rows["b"][1], x[[5, 2]])


def test_rows_of_a_data_set_come_in_the_order_of_the_ids():
    x, _ = pool()
    data_set = active.pool.Pool(tf.data.Dataset.from_tensor_slices(x).batch(7))
    arrays = active.pool.Pool(x)
    ids = np.array([33, 0, 6, 7, 39])
    np.testing.assert_array_equal(data_set.rows(ids), x[ids])
    assert data_set.fingerprint(ids) == arrays.fingerprint(ids)
    for rows in (2, 100):
        parts = list(data_set.chunks(ids, rows))
        np.testing.assert_array_equal(
            np.concatenate([i for i, _ in parts]), sorted(ids)
        )
        np.testing.assert_array_equal(
            np.concatenate([part for _, part in parts]), x[np.sort(ids)]
        )


def test_a_pool_that_is_exhausted_ends_the_loop_with_a_reason(capsys, caplog):
    caplog.set_level("INFO", logger="absl")
    found = learner(num_rows=29, query_size=10, acquisition="random")
    history = found.run(5)
    assert [len(entry["ids"]) for entry in history] == [10, 10, 5]
    assert sorted(found.labelled_ids) == list(range(29))
    assert "all 29 rows" in found.stop_reason
    # The library does not print.
    assert found.stop_reason in caplog.text
    assert not capsys.readouterr().out
    assert found.run(1) == []


def test_rows_without_a_score_are_never_asked_for():
    x, _ = pool()
    x[20:] = np.nan
    found = learner(pool_x=x, candidate_size=4)
    history = found.run(20)
    assert sorted(found.labelled_ids) == list(range(20))
    assert [len(entry["ids"]) for entry in history] == [4, 4, 4, 4]
    assert "NaN for all 20 rows" in found.stop_reason


@pytest.mark.parametrize("is_data_set", [False, True])
def test_random_never_asks_for_rows_that_no_training_takes(is_data_set):
    x, _ = pool()
    x[20:30] = np.nan
    x[30:, 0] = np.inf
    x = tf.data.Dataset.from_tensor_slices(x).batch(7) if is_data_set else x
    found = learner(pool_x=x, acquisition="random", query_size=3)
    history = found.run(20)
    assert sorted(found.labelled_ids) == list(range(20))
    assert [len(entry["ids"]) for entry in history] == [3, 3, 3, 3, 3, 1]
    assert "not finite for all 20 rows" in found.stop_reason


def test_random_asks_in_an_order_that_rows_without_use_do_not_change():
    x, _ = pool()
    all_rows = learner(acquisition="random", query_size=36).run(1)[0]["ids"]
    x[20:] = np.nan
    finite = learner(pool_x=x, acquisition="random", query_size=16).run(1)[0]["ids"]
    assert finite == [i for i in all_rows if i < 20]


@pytest.mark.slow
def test_validation_data_change_nothing_but_what_is_reported(bhn_run):
    with_data, _ = bhn_run
    without = learner(make_model=learners.make("bhn", run_eagerly=False))
    without.run(ROUNDS)
    np.testing.assert_array_equal(with_data.labelled_ids, without.labelled_ids)
    for a, b in zip(
        with_data.model.trainable_variables,
        without.model.trainable_variables,
        strict=True,
    ):
        np.testing.assert_array_equal(a, b)
    assert not any(name.startswith("val_") for name in without.history[0]["metrics"])


def test_rounds_add_up():
    parts, whole = learner(), learner()
    first, second = parts.run(1), parts.run(1)
    assert first + second == whole.run(2) == parts.history


def test_what_is_done_with_the_results_changes_nothing():
    found, other = learner(), learner()
    for entry in (*found.run(1), found.initial_round, *found.history):
        entry["ids"].clear()
        entry["metrics"].clear()
    found.labels[:] = 0
    other.run(1)
    assert found.run(1) == other.run(1)
    assert found.initial_round == other.initial_round
    np.testing.assert_array_equal(found.labels, other.labels)


@pytest.mark.slow
@pytest.mark.parametrize("warm_start", [True, False, "first_weights"])
def test_a_first_round_that_fails_begins_anew(warm_start):
    failures = iter([True])

    class Fails(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            if epoch == 1 and next(failures, False):
                raise InterruptedError

    whole, broken = (
        learner(
            "deterministic",
            warm_start=warm_start,
            fit_kwargs={"epochs": 3, "callbacks": callbacks},
        )
        for callbacks in ([], [Fails()])
    )
    with pytest.raises(InterruptedError):
        broken.run(1)
    assert broken.run(1) == whole.run(1)
    assert broken.initial_round == whole.initial_round


class OfTokens:
    """A model with a score for each token; that of padding is NaN."""

    def predict_uncertainty(self, x, **kwargs):
        return {"mutual_information": np.where(x > 0, x, np.nan)}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_rows_that_are_not_finite_are_found_in_every_dtype(dtype):
    x = pool()[0].astype("float64")
    # As `fit` has it, what float32 cannot hold is infinite.
    x[20:30], x[30:, 0] = np.nan, 1e300 if dtype == "float64" else np.inf
    x = tf.cast(x, dtype)
    found = learner(pool_x=x, acquisition="random", query_size=20)
    found.run(2)
    assert sorted(found.labelled_ids) == list(range(20))
    finite = active.acquisition.which_rows_are_finite({"a": x, "b": x[::-1]})
    np.testing.assert_array_equal(finite, np.zeros(len(x), bool))


@pytest.mark.filterwarnings("error")
def test_the_score_of_a_row_is_the_mean_over_what_is_no_padding():
    x = np.array([[3.0, 2.0, 1.0], [4.0, 2.0, 0.0], [0.0, 0.0, 0.0]])
    _, scores = active.acquisition.score_rows(
        OfTokens(),
        "bald",
        active.pool.Pool(x),
        np.arange(3),
        num_samples=2,
        batch_size=None,
        seed=0,
    )
    np.testing.assert_array_equal(scores, [2.0, 3.0, np.nan])


class WithUncertainty(keras.Model):
    """A network of one's own, which has no seed to be evaluated with."""

    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(networks.NUM_CLASSES, activation="softmax")

    def call(self, x):
        return self.dense(x)

    def predict_uncertainty(self, x, num_samples=1, seed=None, **kwargs):
        return {"mutual_information": 1.0 - self.predict(x, **kwargs).max(axis=1)}


def test_a_derived_model_that_hands_on_arguments_is_evaluated_with_the_seed():
    class Reporting(bhn_tf.BayesianHypernet):
        def evaluate(self, *args, **kwargs):
            return super().evaluate(*args, **kwargs)

    model = Reporting(networks.sequential(), "mean_field", num_examples=20)
    networks.compiled(model)
    first, second = (evaluation.evaluate(model, pool(20), 10, 5) for _ in range(2))
    assert first["val_nll"] == second["val_nll"]


def test_a_model_of_ones_own_is_evaluated_by_keras():
    def make_model():
        model = WithUncertainty()
        model.compile("sgd", "sparse_categorical_crossentropy", run_eagerly=True)
        return model

    found = learner(make_model=make_model)
    (entry,) = found.run(1, validation_data=pool(20))
    assert_rounds(found, 1)
    assert np.isfinite(entry["metrics"]["val_loss"])


@pytest.mark.slow
def test_validation_data_may_be_a_list():
    x, y = pool(20)
    scores = [learner("deterministic", initial_ids=[0, 1]) for _ in range(2)]
    for found, data in zip(scores, ((x, y), [x, y]), strict=True):
        found.run(0, validation_data=data)
    first, second = (found.initial_round["metrics"] for found in scores)
    assert first == second
    assert "val_loss" in first
