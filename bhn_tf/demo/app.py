"""The page and the two questions it asks: what the model is, and what it answers."""

import json
from pathlib import Path

import numpy as np
import tensorflow as tf

from bhn_tf.environment import require
from bhn_tf.scoring.batches import only_input
from bhn_tf.scoring.image_files import check_takes_images
from bhn_tf.serving.assets import FOLDER
from bhn_tf.serving.problems import ScoringProblem
from bhn_tf.serving.served_model import ServedModel

# A picture as JSON takes less; more is no picture of ours.
_MAX_BYTES = 16 << 20
_MAX_SEED = 2**31 - 1


def create_app(saved_model, num_draws: int = 32):
    """Returns a Flask application for one SavedModel.

    `GET /` is the page. `GET /model` tells the shape of an image, the number of
    classes and how many draws vote. `POST /answer` takes `{"pixels": [...], "seed": 1}`
    with height · width · channels numbers from 0 to 255, rows first, and answers
    `mean` [C], `scores` by name, and `samples` [S, C], `null` where the model was
    exported without the signature `sample`.

    Args:
        saved_model: A SavedModel of images and classes, or a folder of versions of it.
        num_draws: S, draws that vote; frozen draws all do.

    Raises:
        ScoringProblem: If the model takes no images or answers no classes.
        FileNotFoundError: If there is no SavedModel.
        ImportError: If Flask is not installed.
    """
    require("flask", "'bhn-tf[demo]'")
    import flask

    question = _Question(ServedModel(saved_model), num_draws)
    app = flask.Flask(__name__, static_url_path="")
    app.config["MAX_CONTENT_LENGTH"] = _MAX_BYTES

    @app.get("/")
    def page():
        return app.send_static_file("index.html")

    @app.get("/model")
    def model():
        return question.facts()

    @app.post("/answer")
    def answer():
        body = flask.request.get_json(silent=True)
        try:
            return question.answer(body)
        except ScoringProblem as problem:
            return {"error": str(problem)}, 400

    return app


class _Question:
    """One picture, asked of a model."""

    def __init__(self, model: ServedModel, num_draws: int):
        self._model = model
        self._key, self._spec = only_input(model.input_specs, "The page", "a picture")
        check_takes_images(self._spec, "The page")
        if not self._spec.shape[1:].is_fully_defined():
            raise ScoringProblem(
                f"The model takes images of the shape {self._spec.shape.as_list()}, "
                "and the page needs to know their size."
            )
        mean = model.output_specs.get("mean")
        if mean is None or mean.shape.rank != 2 or mean.shape[1] < 2:
            raise ScoringProblem(
                f"{model.path} answers {sorted(model.output_specs)}: the page needs a "
                "`mean` of shape [rows, classes]."
            )
        self._num_classes = mean.shape[1]
        self._draws = None
        if "sample" in model.signatures:
            # Frozen draws take no scalars.
            scalars = set(model.specs("sample")) - {self._key}
            self._draws = {"num_samples": num_draws} if scalars else {}

    def facts(self) -> dict:
        """What the page has to know of the model."""
        height, width, channels = self._spec.shape[1:]
        return {
            "height": height,
            "width": width,
            "channels": channels,
            "num_classes": self._num_classes,
            "has_draws": self._draws is not None,
            "name": "/".join(Path(self._model.path).parts[-2:]),
            "metrics": _metrics(self._model.path),
        }

    def answer(self, body) -> dict:
        """Mean, scores and draws for one picture."""
        pixels, seed = self._checked(body)
        inputs = {self._key: pixels}
        answers = {name: value[0] for name, value in self._model(inputs).items()}
        mean = answers.pop("mean")
        samples = None
        if self._draws is not None:
            scalars = {**self._draws, "seed": seed} if self._draws else {}
            samples = self._model(inputs | scalars, "sample")["samples"][0].tolist()
        scores = {k: float(v) for k, v in sorted(answers.items()) if not v.ndim}
        return {"mean": mean.tolist(), "scores": scores, "samples": samples}

    def _checked(self, body) -> tuple[np.ndarray, int]:
        body = body if isinstance(body, dict) else {}
        seed = body.get("seed", 0)
        if type(seed) is not int or not 0 <= seed <= _MAX_SEED:
            raise ScoringProblem(f"`seed` has to be an integer from 0 to {_MAX_SEED}.")
        shape = self._spec.shape[1:]
        try:
            pixels = np.asarray(body.get("pixels"), np.float32)
        except (TypeError, ValueError):
            pixels = np.zeros(0, np.float32)
        # Of NaN, neither comparison is true.
        if pixels.shape != (shape.num_elements(),) or not (
            pixels.min() >= 0 and pixels.max() <= 255
        ):
            raise ScoringProblem(
                f"`pixels` has to be a list of {shape.num_elements()} numbers from 0 "
                f"to 255, for an image of the shape {tuple(shape)}."
            )
        pixels = pixels.reshape(1, *shape)
        if self._spec.dtype == tf.uint8:
            return np.round(pixels).astype(np.uint8), seed
        return (pixels / 255).astype(self._spec.dtype.as_numpy_dtype), seed


def _metrics(path) -> dict:
    """What the model card tells of the model's quality."""
    card = Path(path) / FOLDER / "model_card.json"
    return json.loads(card.read_text())["metrics"] or {} if card.exists() else {}
