"""Every example in a docstring of the library runs: `>>>` and Python blocks."""

import ast
import doctest
import importlib
import pkgutil
import re
import shutil
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

import bhn_tf

SAVED_MODELS = Path(__file__).parent.parent / "saved_models"
NUM_ROWS, NUM_FEATURES, NUM_CLASSES = 24, 784, 10


def modules():
    for found in pkgutil.walk_packages(bhn_tf.__path__, "bhn_tf."):
        # Pipelines of an extra: tests/scoring/test_beam.py runs them.
        if found.name != "bhn_tf.beam":
            yield found.name


def documented(tree):
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef
    return [node for node in ast.walk(tree) if isinstance(node, kinds)]


def blocks():
    for name in modules():
        path = importlib.util.find_spec(name).origin
        with open(path) as file:
            tree = ast.parse(file.read())
        for node in documented(tree):
            text = ast.get_docstring(node) or ""
            place = f"{name}.{getattr(node, 'name', '')}".strip(".")
            for block in re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL):
                yield pytest.param(name, block, id=place)


def inputs():
    generator = np.random.default_rng(0)
    return generator.uniform(size=(NUM_ROWS, NUM_FEATURES)).astype("float32")


def labels():
    return np.arange(NUM_ROWS) % NUM_CLASSES


def make_network():
    return keras.Sequential(
        [
            keras.Input((NUM_FEATURES,)),
            keras.layers.Dense(4, activation="relu"),
            keras.layers.Dropout(0.2),
            keras.layers.Dense(NUM_CLASSES),
        ]
    )


def make_primary():
    return keras.Sequential(
        [
            keras.Input((NUM_FEATURES,)),
            bhn_tf.layers.WeightNormDense(4, activation="relu"),
            bhn_tf.layers.WeightNormDense(NUM_CLASSES),
        ]
    )


def make_model():
    model = bhn_tf.BayesianHypernet(
        make_primary(), bhn_tf.hypernets.RealNVP(1, (4,)), num_examples=NUM_ROWS
    )
    model.compile(run_eagerly=True)
    return model


def make_regression():
    primary = keras.Sequential(
        [keras.Input((NUM_FEATURES,)), bhn_tf.layers.WeightNormDense(1)]
    )
    model = bhn_tf.BayesianHypernet(primary, "mean_field", "gaussian", num_examples=24)
    model.compile(run_eagerly=True)
    return model


#: Names that the examples assume.
MAKE = {
    "x": inputs,
    "x_new": inputs,
    "x_test": inputs,
    "pool_x": inputs,
    "y": labels,
    "y_test": labels,
    "primary": make_primary,
    "network": make_network,
    "make_network": lambda: make_network,
    "model": make_model,
    "make_model": lambda: make_model,
    "found": lambda: bhn_tf.hamiltonian.HamiltonianDraws(
        make_model().sample_scales(8), num_chains=2, acceptance_rate=0.8, divergences=0
    ),
    "module": tf.Module,
    "pandas": lambda: pytest.importorskip("pandas"),
    "draw": lambda: tf.zeros([0]),
    "is_drawn": lambda: lambda layer: False,
    "values_of": lambda: lambda draw: {},
    # A person who knows every label.
    "ask_a_human": lambda: lambda rows: np.zeros(len(rows), "int64"),
}


def names_in(block):
    return {node.id for node in ast.walk(ast.parse(block)) if type(node) is ast.Name}


@pytest.mark.filterwarnings("ignore:.*triggered tf.function retracing")
@pytest.mark.parametrize(["name", "block"], list(blocks()))
def test_a_block_runs(name, block, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if "saved_models/digits" in block:
        shutil.copytree(SAVED_MODELS, "saved_models")
        np.save("digits-0.npy", np.zeros([3, 28, 28, 1], "uint8"))
    if ".run(port" in block:
        monkeypatch.setattr("flask.Flask.run", lambda app, port: None)
    module = importlib.import_module(name)
    make = dict(MAKE)
    if "predict_interval" in block:
        make["model"] = make_regression
    known = {
        "np": np,
        "tf": tf,
        "keras": keras,
        "bhn_tf": bhn_tf,
        "tfd": tfp.distributions,
        **vars(module),
    }
    for needed in names_in(block) - known.keys():
        if needed in make:
            known[needed] = make[needed]()
    keras.utils.set_random_seed(0)
    exec(compile(block, f"<docstring of {name}>", "exec"), known)


@pytest.mark.parametrize("name", list(modules()))
def test_the_lines_of_a_session_are_right(name):
    results = doctest.testmod(importlib.import_module(name))
    assert results.failed == 0
