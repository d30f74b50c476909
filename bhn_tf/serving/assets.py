"""What lies beside the graph: a model card, and requests that warm a server up.

TensorFlow Serving replays `assets.extra/tf_serving_warmup_requests` before a version
takes traffic, so that the first client does not wait for the graph to be optimised.
"""

import json
import platform
from pathlib import Path

import keras
import tensorflow as tf

from bhn_tf.version import __version__

FOLDER = "assets.extra"


def write_model_card(version: Path, model, functions: dict, facts: dict) -> None:
    """Writes `assets.extra/model_card.json`: what the model is and how to ask it.

    Args:
        version: Folder of the SavedModel.
        model: The model that was exported.
        functions: Its concrete functions by signature.
        facts: What the model does not know of itself, such as metrics.
    """
    hypernet = getattr(model, "hypernet", None)
    num_random = getattr(model, "num_random", 0)
    card = {
        "model": type(model).__name__,
        "likelihood": _described(model.likelihood),
        "num_examples": getattr(model, "num_examples", None),
        "num_random": num_random,
        "hypernet": _described(hypernet) if num_random else None,
        **facts,
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
        json.dumps(card, indent=2, default=str) + "\n"
    )


def write_warm_up(version: Path, functions: dict) -> bool:
    """Writes one request of one row for each signature.

    Args:
        version: Folder of the SavedModel.
        functions: Its concrete functions by signature.

    Returns:
        Whether they were written; without the package `tensorflow-serving-api`, which
        defines their format, they are left out.
    """
    try:
        from tensorflow_serving.apis import prediction_log_pb2
    except ImportError:
        return False
    path = _extra(version, "tf_serving_warmup_requests")
    with tf.io.TFRecordWriter(str(path)) as writer:
        for name, function in functions.items():
            log = prediction_log_pb2.PredictionLog()
            request = log.predict_log.request
            request.model_spec.signature_name = name
            for argument, spec in _specs(function).items():
                value = tf.make_tensor_proto(_example(argument, spec), dtype=spec.dtype)
                request.inputs[argument].CopyFrom(value)
            writer.write(log.SerializeToString())
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
    return {"class": type(part).__name__, "config": config}


def _inputs(function):
    return {name: _spec(spec) for name, spec in _specs(function).items()}


def _outputs(function):
    outputs = function.structured_outputs
    return {name: _spec(spec) for name, spec in sorted(outputs.items())}


def _spec(spec):
    return {"shape": spec.shape.as_list(), "dtype": spec.dtype.name}
