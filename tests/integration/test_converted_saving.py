"""Converted networks, saved here and loaded elsewhere."""

import keras
import numpy as np
import pytest

import bhn_tf
from tests.conversion import keras_networks
from tests.integration import centres
from tests.integration.asked_cases import asked_cases

# Keras cannot load a layer that two models share, nor classes it does not know.
NAMES = sorted(set(keras_networks.NETWORKS) - {"nested_and_shared", "kept_layers"})


@pytest.fixture(scope="module")
def saved(request, tmp_path_factory, run_python):
    """The folder, and centre and report of every model before it was saved."""
    directory = tmp_path_factory.mktemp("converted")
    names, before = asked_cases(request, "name"), {}
    for name in names:
        network = keras_networks.make(name)
        random = "kernel" if name == "vgg" else "scale_and_bias"
        model = bhn_tf.from_keras(network, "mean_field", random=random)
        arrays = keras.tree.flatten(keras_networks.inputs_of(network))
        np.savez(directory / f"{name}.npz", *arrays)
        model.save(directory / f"{name}.keras")
        before[name] = centres.centre_of(model, arrays), str(model.conversion_report)
    run_python(centres.__file__, directory, *names)()
    return directory, before


@pytest.mark.parametrize("name", NAMES)
def test_centre_and_report_are_the_same_elsewhere(saved, name):
    directory, before = saved
    centre, report = before[name]
    with np.load(directory / f"{name}_loaded.npz") as loaded:
        np.testing.assert_array_equal(loaded["centre"], centre)
    assert (directory / f"{name}_loaded.txt").read_text() == report
    assert "in all" in report
