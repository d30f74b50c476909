"""Files beside the graph: a model card, and requests that warm a server up.

TensorFlow Serving replays `assets.extra/tf_serving_warmup_requests` before a version
takes traffic, so that the first client does not wait for the graph to be optimised.
"""

import json
import math
import platform
from collections.abc import Mapping
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from bhn_tf.version import __version__

FOLDER = "assets.extra"


def write_model_card(version: Path, model, functions: dict, facts: dict) -> None:
    """Writes `assets.extra/model_card.json`: what the model is and how to ask it.

    Args:
        version: Folder of the SavedModel.
        model: The model that was exported.
        functions: Its concrete functions by signature.
        facts: What the model does not know about itself, such as metrics; see
            `as_json` for what they may hold.

    Raises:
        TypeError: If JSON cannot hold a fact.
    """
    hypernet = getattr(model, "hypernet", None)
    num_random = getattr(model, "num_random", 0)
    card = {
        "model": type(model).__name__,
        "likelihood": _described(model.likelihood),
        "num_examples": getattr(model, "num_examples", None),
        "num_random": num_random,
        "hypernet": _described(hypernet) if num_random else None,
        **{name: as_json(value, name) for name, value in facts.items()},
        "signatures": {
            name: {"inputs": _inputs(function), "outputs": _outputs(function)}
            for name, function in functions.items()
        },
        "versions": {
            "bhn_tf": __version__,
            "tensorflow": tf.__version__,
            "keras": keras.__version__,
            "python": platform.python_version(),
        },
    }
    _extra(version, "model_card.json").write_text(
        json.dumps(card, indent=2, allow_nan=False) + "\n"
    )


def as_json(value, name: str):
    """Returns a value in a form that JSON can hold.

    Args:
        value: Numbers, arrays or tensors of them, texts, `None`, and lists and
            dictionaries of these.
        name: Name of the value, for the message.

    Returns:
        NumPy's numbers and arrays as numbers and lists; numbers that are not finite,
        which JSON lacks, as `None`.

    Raises:
        TypeError: If it is anything else.

    Example:
        >>> as_json({"accuracy": np.float32(0.5), "nll": float("nan")}, "metrics")
        {'accuracy': 0.5, 'nll': None}
    """
    if isinstance(value, Mapping):
        return {str(key): as_json(v, f"{name}[{key!r}]") for key, v in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(v, f"{name}[{index}]") for index, v in enumerate(value)]
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else None
    if tf.is_tensor(value) or isinstance(value, keras.Variable):
        value = keras.ops.convert_to_numpy(value)
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "biufU":
        return as_json(value.tolist(), name)
    raise TypeError(
        f"The model card holds numbers, arrays of them, texts, and lists and "
        f"dictionaries of these; `{name}` is {type(value).__name__}: {value!r:.100}. "
        "Convert it, with `float` for example."
    )


def write_warm_up(version: Path, functions: dict) -> bool:
    """Writes one request of one row for each signature that answers it.

    A server does not load a version whose warm-up fails: one pixel may be too small for
    a network of images of any size, an empty text no word of its vocabulary, and 0 is
    no level of a guarantee.

    Args:
        version: Folder of the SavedModel.
        functions: Its concrete functions by signature.

    Returns:
        Whether any were written; without the package `tensorflow-serving-api`, which
        defines their format, they are left out.
    """
    try:
        from tensorflow_serving.apis import prediction_log_pb2
    except ImportError:
        return False
    logs = []
    for name, function in functions.items():
        log = prediction_log_pb2.PredictionLog()
        request = log.predict_log.request
        request.model_spec.signature_name = name
        inputs = {
            argument: tf.constant(_example(argument, spec), spec.dtype)
            for argument, spec in _specs(function).items()
        }
        if not _is_answered(function, inputs):
            continue
        for argument, value in inputs.items():
            request.inputs[argument].CopyFrom(tf.make_tensor_proto(value))
        logs.append(log.SerializeToString())
    if not logs:
        return False
    path = _extra(version, "tf_serving_warmup_requests")
    with tf.io.TFRecordWriter(str(path)) as writer:
        for record in logs:
            writer.write(record)
    return True


def _is_answered(function, inputs) -> bool:
    try:
        function(**inputs)
    except tf.errors.OpError:
        return False
    return True


def _example(argument, spec):
    """One row of zeros, or of empty texts."""
    if argument == "num_samples" and not spec.shape.rank:
        return 2
    shape = [size or 1 for size in spec.shape]
    return tf.zeros(shape, spec.dtype).numpy()


def _extra(version, name) -> Path:
    folder = Path(version) / FOLDER
    folder.mkdir(exist_ok=True)
    return folder / name


def _specs(function) -> dict:
    return function.structured_input_signature[1]


def _described(part) -> dict:
    config = part.get_config()
    for name in ("name", "trainable", "dtype"):
        config.pop(name, None)
    # Other values become texts: the card describes the class and is not read back.
    config = json.loads(json.dumps(config, default=str))
    return {"class": type(part).__name__, "config": as_json(config, "config")}


def _inputs(function):
    return {name: _spec(spec) for name, spec in _specs(function).items()}


def _outputs(function):
    outputs = function.structured_outputs
    return {name: _spec(spec) for name, spec in sorted(outputs.items())}


def _spec(spec):
    return {"shape": spec.shape.as_list(), "dtype": spec.dtype.name}
