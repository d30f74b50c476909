"""A small pool and learners for it, for this process or one that is killed."""

import keras
import numpy as np

from bhn_tf import active, baselines, hypernets
from bhn_tf.models import BayesianHypernet
from tests import networks

INITIAL = [3, 0, 7, 12]


def pool(num_rows=40):
    return networks.data(num_rows, seed=5)


def dropout_network():
    return keras.Sequential(
        [
            keras.Input((networks.NUM_FEATURES,)),
            keras.layers.Dense(8, activation="relu"),
            keras.layers.Dropout(0.5),
            keras.layers.Dense(networks.NUM_CLASSES),
        ]
    )


@keras.saving.register_keras_serializable("tests.active")
class Quick(keras.Model):
    """A model that learns at once: one number, made of labels, noise and its past."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.build((None, networks.NUM_FEATURES))

    def build(self, input_shape):
        self.number = self.add_weight(shape=(), initializer="normal", name="number")
        self.built = True

    def fit(self, x, y, callbacks=(), **kwargs):
        # Keras's global seed also seeds NumPy.
        noise = np.random.default_rng(np.random.randint(2**31)).normal()
        self.optimizer.build(self.trainable_variables)
        self.number.assign(np.tanh(self.number + y.mean() + noise))
        return self.history_of(x)

    def history_of(self, x):
        found = keras.callbacks.History()
        found.history = {"loss": [float(self.number) + float(np.nansum(x))]}
        return found

    def evaluate(self, x, y, **kwargs):
        return {"nll": float(self.number) + float(x.sum())}

    def predict_uncertainty(self, x, **kwargs):
        # A number even for rows that are NaN, as with networks that have ReLU.
        total = np.nan_to_num(x.sum(axis=-1))
        return {"mutual_information": np.sin(9 * float(self.number) * total)}

    def predict_samples(self, x, num_samples=1, **kwargs):
        found = np.abs(np.sin(float(self.number) * x[:, None, : networks.NUM_CLASSES]))
        return np.repeat(found, num_samples, axis=1)


METHODS = {
    "bhn": lambda: BayesianHypernet(
        networks.sequential(), hypernets.RealNVP(2, (4,)), num_examples=1
    ),
    "dropout": lambda: baselines.MCDropout(dropout_network()),
    "deterministic": lambda: baselines.Deterministic(networks.plain()),
    "ensemble": lambda: baselines.DeepEnsemble([networks.plain() for _ in range(2)]),
}


def make(method="quick", run_eagerly=True):
    """A function that makes the compiled model of a method.

    A few steps take less time than the graphs of each new model.
    """

    def make_model():
        if method == "quick":
            return networks.compiled(Quick(), "sgd")
        model = networks.compiled(
            METHODS[method](), metrics=["accuracy"], run_eagerly=run_eagerly
        )
        # Steps large enough to change which rows are asked for.
        model.optimizer.learning_rate = 0.05
        return model

    return make_model


def learner(method="quick", num_rows=40, **kwargs):
    x, y = pool(num_rows)
    settings = dict(
        label_fn=lambda ids: y[ids], initial_ids=INITIAL, query_size=4, num_samples=5
    )
    settings |= dict(seed=1, fit_kwargs={"epochs": 3, "batch_size": 8})
    settings |= {"pool_x": x, **kwargs}
    return active.ActiveLearner(settings.pop("make_model", make(method)), **settings)


class Labeller:
    """Gives the true labels, and remembers what it was asked for.

    Args:
        interrupt: Called before the answer, with the number of questions so far.
    """

    def __init__(self, interrupt=lambda number: None):
        self.asked: list[int] = []
        self.questions = 0
        self._interrupt = interrupt

    def __call__(self, ids):
        self.questions += 1
        self._interrupt(self.questions)
        self.asked += ids.tolist()
        return pool()[1][ids]


def nobody(ids):
    """Stands for people who have already given all labels."""
    raise AssertionError(f"labels of {ids} were asked for again")
