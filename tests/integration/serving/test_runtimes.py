"""A SavedModel in the runtimes that serve it: fresh draws, repeated seeds."""

import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from tests import networks
from tests.integration.serving import c_api, tensorflow_alone

LIBRARY = pathlib.Path(tf.__file__).with_name("libtensorflow_cc.so.2")


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """The folder of all files, the SavedModel and its inputs."""
    folder = tmp_path_factory.mktemp("served")
    path = networks.bayesian().export(folder / "model", num_samples=2)
    np.save(folder / "x.npy", networks.data(3)[0])
    for value in (1, 2, 3):
        np.save(folder / f"{value}.npy", np.int32(value))
    return folder, path, folder / "x.npy"


@pytest.fixture(scope="module")
def answers(exported):
    """The answers of this process, in which everything is installed."""
    _, path, x = exported
    served = tf.saved_model.load(path)
    x = tf.constant(np.load(x))
    samples = {
        f"seed_{seed}": served.signatures["sample"](
            inputs=x, num_samples=tf.constant(3), seed=tf.constant(seed)
        )["samples"].numpy()
        for seed in (1, 2)
    }
    centre = served.signatures["deterministic"](inputs=x)["mean"].numpy()
    return {**samples, "centre": centre}


def assert_fresh_and_repeated(runs, answers):
    """Each request and process draws anew; seeds and the centre repeat exactly."""
    defaults = [value for run in runs for key, value in run.items() if "def" in key]
    assert len(defaults) == 2 * len(runs)
    for index, value in enumerate(defaults):
        assert value.shape == answers["centre"].shape
        for other in defaults[:index]:
            assert not np.array_equal(value, other)
    for run in runs:
        for key, expected in answers.items():
            np.testing.assert_array_equal(run[key], expected, err_msg=key)
    assert not np.array_equal(answers["seed_1"], answers["seed_2"])


def test_in_processes_that_have_tensorflow_alone(exported, answers, run_python):
    folder, path, x = exported
    files = [folder / f"alone_{index}.npz" for index in range(2)]
    started = [run_python(tensorflow_alone.__file__, path, x, file) for file in files]
    for wait in started:
        wait()
    assert_fresh_and_repeated([dict(np.load(file)) for file in files], answers)


needs_library = pytest.mark.skipif(
    not LIBRARY.exists(), reason="the wheel holds no libtensorflow_cc"
)


@pytest.fixture(scope="module")
def requests(exported):
    """A file of requests for `c_api.py`."""
    folder, path, x = exported
    file = folder / "requests.json"
    scalars = {value: str(folder / f"{value}.npy") for value in (1, 2, 3)}
    signatures = meta_graph(path).signature_def

    def request(signature, output, **scalars):
        inputs = signatures[signature].inputs
        values = {"inputs": str(x), **scalars}
        return {
            "feeds": {inputs[name].name: value for name, value in values.items()},
            "fetch": signatures[signature].outputs[output].name,
        }

    asked = {f"default_{i}": request("serving_default", "mean") for i in range(2)}
    for seed in (1, 2):
        asked[f"seed_{seed}"] = request(
            "sample", "samples", num_samples=scalars[3], seed=scalars[seed]
        )
    asked["centre"] = request("deterministic", "mean")
    file.write_text(json.dumps(asked))
    return file


@needs_library
def test_through_the_c_api(exported, requests, answers, run_python):
    folder, path, _ = exported
    files = [folder / f"c_{index}.npz" for index in range(2)]
    started = [
        run_python(c_api.__file__, LIBRARY, path, requests, file) for file in files
    ]
    for wait in started:
        wait()
    assert_fresh_and_repeated([dict(np.load(file)) for file in files], answers)


@pytest.mark.slow
@needs_library
def test_threads_through_the_c_api(exported, requests, run_python):
    folder, path, _ = exported
    arguments = LIBRARY, path, requests, folder / "load.npz", 10_000
    load = json.loads(run_python(c_api.__file__, *arguments)())
    assert load["wrong"] == 0 and load["grown"] < 20


def test_with_saved_model_cli(exported, answers):
    folder, path, _ = exported

    def run(signature, name, **files):
        inputs = ";".join(f"{key}={folder / file}" for key, file in files.items())
        return subprocess.Popen(
            [
                pathlib.Path(sys.executable).with_name("saved_model_cli"),
                "run",
                f"--dir={path}",
                "--tag_set=serve",
                f"--signature_def={signature}",
                f"--inputs={inputs}",
                f"--outdir={folder / name}",
            ],
            stdout=subprocess.DEVNULL,
        )

    x = "x.npy"
    started = [
        run("serving_default", "first", inputs=x),
        run("serving_default", "second", inputs=x),
        run("sample", "sampled", inputs=x, num_samples="3.npy", seed="1.npy"),
    ]
    assert [process.wait(timeout=300) for process in started] == [0, 0, 0]
    first, second = (
        np.load(folder / name / "mean.npy") for name in ("first", "second")
    )
    assert not np.array_equal(first, second)
    samples = np.load(folder / "sampled" / "samples.npy")
    np.testing.assert_array_equal(samples, answers["seed_1"])


def meta_graph(path):
    saved = pathlib.Path(path, "saved_model.pb").read_bytes()
    return saved_model_pb2.SavedModel.FromString(saved).meta_graphs[0]


def test_the_graph_holds_stock_operations_without_python(exported):
    _, path, _ = exported
    graph = meta_graph(path).graph_def
    nodes = [*graph.node, *(n for f in graph.library.function for n in f.node_def)]
    functions = {function.signature.name for function in graph.library.function}
    used = {node.op for node in nodes} - functions
    # Raises if TensorFlow itself does not know an operation.
    for name in used:
        assert tf.raw_ops.__dict__.get(name) or name in ("NoOp", "Placeholder"), name
    assert not {name for name in used if "PyFunc" in name}
