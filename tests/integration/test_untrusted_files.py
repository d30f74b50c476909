"""Files from others are read, but code in them never runs."""

import json
import pickle
import zipfile

import keras
import numpy as np
import pytest

from bhn_tf.layers import WeightNormDense
from tests import networks
from trainers.config import CommonConfig, UsageProblem
from trainers.run_folder import RunFolder

#: Set by code that must not run.
RAN = []


class Trap:
    """Runs when it is unpickled."""

    def __reduce__(self):
        return RAN.append, ("a pickle",)


@pytest.fixture(autouse=True)
def _nothing_ran():
    RAN.clear()
    yield
    assert not RAN


def rewritten(source, target, change):
    """A copy of a `.keras` file with another configuration."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name == "config.json":
                content = json.dumps(change(json.loads(content))).encode()
            new.writestr(name, content)
    return target


def test_a_lambda_layer_is_not_run_unless_asked_for(tmp_path):
    network = keras.Sequential(
        [
            keras.Input((networks.NUM_FEATURES,)),
            keras.layers.Lambda(lambda x: RAN.append(1) or x, output_shape=(4,)),
            WeightNormDense(networks.NUM_CLASSES),
        ]
    )
    networks.bayesian(network, hypernet="mean_field").save(tmp_path / "m.keras")
    RAN.clear()
    with pytest.raises(ValueError, match=r"safe_mode|unsafe"):
        keras.saving.load_model(tmp_path / "m.keras")


@pytest.mark.parametrize("part", ["primary", "hypernet", "likelihood", "prior"])
@pytest.mark.parametrize(
    "planted",
    [
        {"class_name": "function", "config": "system", "module": "os"},
        {"class_name": "Popen", "config": {"args": "true"}, "module": "subprocess"},
        {"class_name": "__lambda__", "config": {"value": "4wAAAAA="}, "module": "x"},
    ],
    ids=["function", "class", "lambda"],
)
def test_names_of_other_modules_are_refused(part, planted, tmp_path):
    model = networks.bayesian(hypernet="mean_field")
    model.save(tmp_path / "m.keras")

    def plant(config):
        config["config"][part] = {**planted, "registered_name": planted["class_name"]}
        return config

    path = rewritten(tmp_path / "m.keras", tmp_path / "planted.keras", plant)
    with pytest.raises((ValueError, TypeError)):
        keras.saving.load_model(path)


def test_arrays_of_a_run_are_not_unpickled(tmp_path):
    with RunFolder(CommonConfig(output_dir=str(tmp_path / "run")), "name") as folder:
        folder.checkpoints.save_arrays("draws", {"x": np.zeros(2)})
        path = folder.path / "checkpoints" / "draws.npz"
        np.savez(path, x=np.array([Trap()], object))
        with pytest.raises(UsageProblem, match="draws.npz cannot be read"):
            folder.checkpoints.load_arrays("draws")


@pytest.mark.parametrize("method", ["pickle", "archive that leads elsewhere"])
def test_a_checkpoint_that_is_something_else_is_passed_over(tmp_path, method):
    with RunFolder(CommonConfig(output_dir=str(tmp_path / "run")), "name") as folder:
        model = networks.plain()
        for epoch in (1, 2):
            folder.checkpoints.save("a", epoch, model)
        path = folder.checkpoints.last_path("a")
        if method == "pickle":
            path.write_bytes(pickle.dumps(Trap()))
        else:
            with zipfile.ZipFile(path, "w") as archive:
                archive.writestr("../../escaped.txt", "out")
                archive.writestr("config.json", "{}")
                archive.writestr("metadata.json", "{}")
        assert folder.checkpoints.load("a")[0] == 1
    assert not list(tmp_path.rglob("escaped.txt"))
