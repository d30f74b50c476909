"""A model card holds what it was given, as JSON that every reader takes."""

import json
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from bhn_tf.serving.assets import as_json
from tests import networks

GIVEN = {
    "accuracy": np.float32(0.5),
    "count": np.int64(3),
    "passed": np.bool_(True),
    "by_class": np.array([[1.0, np.nan], [np.inf, 2.0]]),
    "nll": float("nan"),
    "tensor": tf.constant(0.25),
    "nested": {1: (np.uint8(7), "text", None)},
}
TOLD = {
    "accuracy": 0.5,
    "count": 3,
    "passed": True,
    "by_class": [[1.0, None], [None, 2.0]],
    "nll": None,
    "tensor": 0.25,
    "nested": {"1": [7, "text", None]},
}


def refuse(constant):
    raise ValueError(f"{constant} is no JSON")


def test_numbers_of_numpy_are_numbers_in_the_card(tmp_path):
    model = networks.bayesian(networks.plain())
    path = model.export(tmp_path, 2, signatures="deterministic", metrics=GIVEN)
    text = pathlib.Path(path, "assets.extra", "model_card.json").read_text()
    assert json.loads(text, parse_constant=refuse)["metrics"] == TOLD


def test_what_is_no_number_is_refused_and_nothing_is_exported(tmp_path):
    model = networks.bayesian(networks.plain())
    metrics = {"curve": [1.0, object()]}
    with pytest.raises(TypeError, match=r"metrics\['curve'\]\[1\]` is object"):
        model.export(tmp_path, 2, signatures="deterministic", metrics=metrics)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("value", [1j, b"bytes", np.array([{}]), {1, 2}])
def test_values_without_a_place_in_json(value):
    with pytest.raises(TypeError, match="`x` is"):
        as_json(value, "x")
