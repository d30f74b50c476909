"""Calls from several threads, or within each other, do not interfere."""

import concurrent.futures
import threading

import keras
import numpy as np
import pytest
import tensorflow as tf

import bhn_tf
from bhn_tf.baselines import DeepEnsemble, Deterministic, MCDropout
from bhn_tf.layers import WeightNormDense
from tests import networks
from tests.keras_versions import keras_before

# Before 3.15, a batch goes on with the sums of the batches before it.
ADDS_UP = keras_before("3.15")
SCORING = ("evaluate",) if ADDS_UP else ("evaluate", "test_on_batch")
GAUSSIAN = "gaussian"
NUM_ROWS = 12


def regression(dense=keras.layers.Dense, *more):
    inputs = keras.Input((networks.NUM_FEATURES,))
    return keras.Sequential([inputs, dense(6, activation="relu"), *more, dense(1)])


MAKE = {
    "hypernet": lambda: bhn_tf.BayesianHypernet(
        regression(WeightNormDense), "mean_field", GAUSSIAN, num_examples=NUM_ROWS
    ),
    "dropout": lambda: MCDropout(
        regression(keras.layers.Dense, keras.layers.Dropout(0.4)), GAUSSIAN
    ),
    "ensemble": lambda: DeepEnsemble([regression(), regression()], GAUSSIAN),
    "deterministic": lambda: Deterministic(regression(), GAUSSIAN),
}


def data():
    x, _ = networks.data(NUM_ROWS)
    return x, x[:, :1] + 0.1


def slow(*names):
    return [pytest.param(name, marks=pytest.mark.slow) for name in names]


@pytest.fixture(
    scope="module", params=["hypernet", "dropout", *slow("ensemble", "deterministic")]
)
def model(request):
    model = MAKE[request.param]()
    return networks.compiled(model, keras.optimizers.SGD(0.0), metrics=["mae"])


def questions(model):
    """Calls with seeds, each of which has one right answer."""
    x, y = data()
    asked = {}
    for seed in range(3):
        draws = {"num_samples": seed + 1, "seed": seed}
        rows = slice(0, 4 * (seed + 1))

        def ask(name, *more, rows=rows, draws=draws, **kwargs):
            return getattr(model, name)(x[rows], *more, **draws, **kwargs)

        for name in ("predict", "predict_samples", "predict_uncertainty"):
            asked[name, seed] = lambda name=name, ask=ask: ask(
                name, batch_size=4, verbose=0
            )
        asked["predict_on_batch", seed] = lambda ask=ask: ask("predict_on_batch")
        for level in (0.5, 0.9):
            asked["predict_interval", seed, level] = lambda level=level, ask=ask: ask(
                "predict_interval", level, verbose=0
            )
        for name in SCORING:
            quiet = {"verbose": 0, "batch_size": 5} if name == "evaluate" else {}
            asked[name, seed] = lambda name=name, ask=ask, quiet=quiet, rows=rows: ask(
                name, y[rows], return_dict=True, **quiet
            )
        if hasattr(model, "elbo"):
            asked["elbo", seed] = lambda seed=seed: model.elbo(x, y, seed + 2, 5, seed)
            asked["sample_scales", seed] = lambda seed=seed: model.sample_scales(
                2, seed
            )
    return asked


def assert_same(found, expected, what):
    tf.nest.map_structure(
        lambda a, b: np.testing.assert_allclose(
            a, b, rtol=1e-5, atol=1e-6, err_msg=str(what)
        ),
        found,
        expected,
    )


@pytest.mark.slow
def test_every_thread_gets_its_own_answer(model):
    asked = questions(model)
    expected = {what: ask() for what, ask in asked.items()}
    start = threading.Barrier(4)

    def work(worker):
        random = np.random.default_rng(worker)
        start.wait()
        names = list(asked)
        return [
            (names[index], asked[names[index]]())
            for index in random.permutation(len(names))
        ]

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for answers in pool.map(work, range(4)):
            for what, found in answers:
                assert_same(found, expected[what], what)


def test_the_first_calls_may_come_at_once():
    """Nothing is traced yet, and the model is not even built."""
    primary = keras.Sequential([WeightNormDense(3)])
    model = networks.compiled(networks.bayesian(primary, "mean_field"))
    x, _ = networks.data(5)
    start = threading.Barrier(4)

    def ask(_):
        start.wait()
        return model.predict(x, num_samples=2, seed=1, verbose=0)

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(ask, range(4)))
    expected = model.predict(x, num_samples=2, seed=1, verbose=0)
    assert len(networks.weights_of(model)) == 6
    for found in answers:
        np.testing.assert_allclose(found, expected, rtol=1e-6)


class Asks(keras.callbacks.Callback):
    """Calls the model in the middle of whatever it does."""

    def __init__(self, with_evaluation):
        super().__init__()
        self.with_evaluation, self.answers = with_evaluation, []

    def ask(self, *_, **__):
        x, y = data()
        draws = {"num_samples": 3, "seed": 9}
        answer = [
            self.model.predict(x[:5], verbose=0, **draws),
            self.model.predict_on_batch(x[:3], **draws),
            self.model.predict_interval(x[:3], 0.7, verbose=0, **draws),
        ]
        if self.with_evaluation:
            # One row with different labels, so that its sums would be noticed.
            answer.append(
                self.model.evaluate(
                    x[:1], y[:1] + 50, verbose=0, return_dict=True, **draws
                )
            )
        self.answers.append(answer)

    on_train_batch_end = on_test_batch_end = on_predict_batch_end = ask
    on_epoch_begin = on_epoch_end = on_test_begin = ask


def calls(model, callbacks):
    """The results of the outer calls, with callbacks in them."""
    x, y = data()
    arguments = {"batch_size": 5, "verbose": 0, "callbacks": callbacks}
    draws = {"num_samples": 2, "seed": 4}
    keras.utils.set_random_seed(3)
    noise = getattr(model, "noise", None)
    if noise is not None:
        noise.state.assign([1, 0])
    fitted = model.fit(x, y, shuffle=False, epochs=2, **arguments).history
    return {
        "evaluate": model.evaluate(x, y, return_dict=True, **draws, **arguments),
        "predict": model.predict(x, **draws, **arguments),
        "uncertainty": model.predict_uncertainty(x, **draws, **arguments),
        "fit": {} if isinstance(model, MCDropout) else fitted,
    }


@pytest.mark.slow
@pytest.mark.parametrize("with_evaluation", [False, True], ids=["asks", "evaluates"])
def test_callbacks_may_ask(model, with_evaluation):
    expected = calls(model, [])
    callback = Asks(with_evaluation)
    assert_same(calls(model, [callback]), expected, "outer")
    assert len(callback.answers) >= 20
    for answer in callback.answers:
        assert_same(answer, callback.answers[0], "inner")


@pytest.mark.slow
def test_validation_is_that_without_a_callback(model):
    x, y = data()

    def history(callbacks):
        keras.utils.set_random_seed(3)
        model.eval_samples = 0
        arguments = {"batch_size": 5, "verbose": 0, "shuffle": False}
        found = model.fit(
            x, y, validation_data=(x, y), callbacks=callbacks, **arguments
        ).history
        return {name: v for name, v in found.items() if name.startswith("val_")}

    expected = history([])
    assert {"val_loss", "val_mae", "val_predictive_nll"} <= set(expected)
    assert_same(history([Asks(True)]), expected, "validation")


class Batches(keras.utils.PyDataset):
    """Batches that call the model when they are made."""

    def __init__(self, model):
        super().__init__()
        self.model, self.answers = model, []

    @property
    def num_batches(self):
        return 3

    def __getitem__(self, index):
        x, y = data()
        answer = self.model.predict(x[:3], num_samples=2, seed=5, verbose=0)
        self.answers.append(answer)
        rows = slice(4 * index, 4 * index + 4)
        return x[rows], y[rows]


def generator(batches):
    for index in range(3):
        yield batches[index]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["PyDataset", "generator"])
def test_data_may_ask(model, kind):
    x, y = data()
    batches = Batches(model)

    def made():
        return batches if kind == "PyDataset" else generator(batches)

    arrays = {"num_samples": 2, "seed": 4, "verbose": 0, "batch_size": 4}
    # Keras warns if a generator ends and its length was not known.
    draws = {**arrays, "batch_size": None, "steps": 3}
    assert_same(
        [
            model.evaluate(made(), return_dict=True, **draws),
            model.predict(made(), **draws),
        ],
        [
            model.evaluate(x, y, return_dict=True, **arrays),
            model.predict(x, **arrays),
        ],
        "outer",
    )
    assert np.isfinite(
        model.fit(made(), steps_per_epoch=3, verbose=0).history["loss"]
    ).all()
    assert len(batches.answers) >= 9
    for answer in batches.answers:
        assert_same(answer, batches.answers[0], "inner")


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["on_epoch_begin", "on_train_batch_begin"])
def test_evaluating_before_the_first_step_leaves_its_metrics_alone(moment):
    x, y = data()
    model = MAKE["deterministic"]()

    def mae(callbacks):
        # Metrics are made anew, and built by the first batch that they see.
        networks.compiled(model, keras.optimizers.SGD(0.0), metrics=["mae"])
        return model.fit(x, y, verbose=0, callbacks=callbacks).history["mae"]

    def evaluate(_, logs=None):
        model.evaluate(x, y + 10.0, verbose=0)

    alone = mae([])
    beside = mae([keras.callbacks.LambdaCallback(**{moment: evaluate})])
    np.testing.assert_allclose(beside, alone, rtol=1e-6)
