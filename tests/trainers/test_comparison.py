"""Flags that make no model end a comparison, which writes nothing."""

import numpy as np
import pytest

from tests.trainers.run_checks import check_refused
from trainers import (
    active_learning,
    adversarial_detection,
    anomaly_detection,
    classification,
)
from trainers.networks import Layers, convolutional

COMPARING = (classification, anomaly_detection, adversarial_detection)


@pytest.fixture(autouse=True)
def small_images(monkeypatch):
    rows = np.zeros((20, 8, 8, 1), "float32"), np.arange(20) % 2
    for trainer in (*COMPARING, active_learning):
        monkeypatch.setattr(
            trainer, "load_splits", lambda config: {"train": rows, "test": rows}
        )


@pytest.mark.parametrize("trainer", COMPARING)
@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"random": ("none",)}, "--random=none: nothing is generated"),
        (
            {"random": ("scale", "kernel"), "noise_groups": 0},
            "--noise_groups=0 --random=scale,kernel: no .* for each row",
        ),
        ({"network": "cnn", "filters": (2,) * 5}, "--network=cnn .*=2,2,2,2,2: no"),
    ],
)
def test_what_makes_no_model_is_named(trainer, flags, message, tmp_path):
    small = {"units": (4,), "flow_units": (4,)}
    check_refused(trainer, message, tmp_path / "run", {**flags, **small})


def test_images_too_small_for_a_learner_are_named(tmp_path):
    flags = {"flow_units": (4,), "filters": 2, "units": (4,), "candidate_size": 10}
    message = r"--network=cnn --filters=2: no network .* \(8, 8, 1\)"
    check_refused(active_learning, message, tmp_path / "run", flags)


@pytest.mark.parametrize("generated", [[], ["scale"]])
def test_layers_are_named_by_their_place_in_every_network(generated):
    """Names are in results, which must not tell what the process had made before."""
    for _ in range(2):
        network = convolutional((8, 8, 1), (2,), (3,), 2, Layers(generated))
        names = [layer.name for layer in network.layers if layer.weights]
        assert names == ["conv2d_1", "dense_2", "dense_3"]
