"""The page and its two requests: what the model is, and what it answers."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import tensorflow as tf
from numpy.typing import ArrayLike

from bhn_tf.demo.one_output import one_output
from bhn_tf.demo.promise import Promise
from bhn_tf.environment import require
from bhn_tf.scoring.batches import only_input
from bhn_tf.scoring.guarantees import class_names
from bhn_tf.scoring.image_files import check_takes_images
from bhn_tf.scoring.keras_file import open_model
from bhn_tf.serving.problems import ScoringProblem
from bhn_tf.serving.served_model import ServedModel
from bhn_tf.serving.signatures import MOST_SAMPLES
from bhn_tf.two_classes import as_two_classes

#: Names of this machine. A foreign domain that resolves to it, a trick to reach local
#: servers through browsers, would send another name.
LOOPBACK = ("localhost", "127.0.0.1", "::1")

# The most bytes of a number from 0 to 255 in JSON, and of everything around them.
_BYTES_OF_NUMBER = 32
_BYTES_AROUND = 1 << 10
_MAX_SEED = 2**31 - 1


def create_app(
    saved_model,
    num_draws: int = 32,
    hosts: Sequence[str] | str | None = LOOPBACK,
    *,
    output: str | None = None,
):
    """Returns a Flask application for one SavedModel.

    `GET /` is the page. `GET /model` gives the shape of an image, the number of classes
    and the number of draws that vote.

    `POST /answer` takes `{"pixels": [...], "seed": 1}` with height · width · channels
    numbers from 0 to 255, rows first. It answers `mean` [C], `scores` by name, and
    `samples` [S, C], which is `null` if the model was exported without the signature
    `sample`. `seed` is the seed of the samples; mean and scores come from the model's
    own draws, new for every request unless frozen. For a calibrated model the answer
    also has, at the requested `level`, `set`, the numbers of the classes, or
    `interval`, a pair of bounds for each target, `null` on a side without a bound.

    Requests that cannot be answered get a status of 400 or more and `{"error": "why"}`.

    Args:
        saved_model: A SavedModel of images and classes, or of images and calibrated
            numbers; a folder of versions of it, or a `.keras` file.
        num_draws: S, draws that vote, at most 10,000; frozen draws all vote.
        hosts: Host names, or one, under which the page is served; `None` for any, if it
            is meant to be open to others.
        output: Name of the output to show, for a model of several outputs; its
            signatures answer with `<output>_mean`. `None` for a model with one output.

    Raises:
        ScoringProblem: If the model does not take images or does not answer classes,
            has several outputs or no output of the given name, or `num_draws` is too
            large.
        FileNotFoundError: If there is no SavedModel.
        ImportError: If Flask is not installed.

    Example:
    ```python
    create_app("saved_models/digits").run(port=8000)
    ```
    """
    require("flask", "'bhn-tf[demo]'")
    import flask
    from werkzeug.exceptions import HTTPException

    if hosts is not None:
        # `in` would find a name inside a text.
        hosts = [hosts] if isinstance(hosts, str) else hosts
        hosts = [host.lower() for host in hosts]
    question = _Question(one_output(open_model(saved_model), output), num_draws)
    app = flask.Flask(__name__, static_url_path="")
    app.config["MAX_CONTENT_LENGTH"] = question.max_bytes

    @app.before_request
    def refuse_other_hosts():
        asked = _hostname(flask.request.headers.get("Host", ""))
        if hosts is not None and asked not in hosts:
            flask.abort(400, "This page is not served under that name.")

    @app.get("/")
    def page():
        return app.send_static_file("index.html")

    @app.get("/model")
    def model():
        return question.facts()

    @app.post("/answer")
    def answer():
        # Plain text is refused, since a form on any page can send it.
        if not flask.request.is_json:
            raise ScoringProblem("A question is JSON with `pixels` and `seed`.")
        return question.answer(_parsed(flask.request.get_data()))

    @app.errorhandler(ScoringProblem)
    def say_problem(problem):
        return {"error": str(problem)}, 400

    @app.errorhandler(HTTPException)
    def say_error(error):
        # Its headers stay: a method that is refused comes with those that are not.
        response = error.get_response()
        response.data = json.dumps({"error": error.description})
        response.content_type = "application/json"
        return response

    return app


def _hostname(host: str) -> str | None:
    """The name in a `Host` header, without its port."""
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:
        return None


def _parsed(text: bytes):
    """The value of a JSON text, without NaN and Infinity, which JSON does not have."""

    def refuse(constant):
        raise ValueError(constant)

    try:
        return json.loads(text, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise ScoringProblem(
            "A question is JSON with `pixels` and `seed`; this is none."
        ) from error


class _Question:
    """The question that the page asks a model: one picture."""

    def __init__(self, model: ServedModel, num_draws: int):
        is_count = isinstance(num_draws, int | np.integer)
        if not is_count or not 1 <= num_draws <= MOST_SAMPLES:
            raise ScoringProblem(
                f"Expected `num_draws` from 1 to {MOST_SAMPLES}, got {num_draws!r}."
            )
        self._model = model
        self._key, self._spec = only_input(model.input_specs, "The page", "a picture")
        check_takes_images(self._spec, "The page")
        if not self._spec.shape[1:].is_fully_defined():
            raise ScoringProblem(
                f"The model takes images of the shape {self._spec.shape.as_list()}, "
                "and the page needs to know their size."
            )
        self._promise = Promise(model)
        mean = model.output_specs.get("mean")
        makes_numbers = self._promise.kind == "interval"
        # Means of several targets have the shape of probabilities, and a `std` beside.
        makes_classes = "std" not in model.output_specs
        if mean is None or mean.shape.rank != 2 or not (makes_numbers or makes_classes):
            raise ScoringProblem(
                f"{model.path} answers {sorted(model.output_specs)}: the page needs a "
                "`mean` of shape [rows, classes], or a calibrated model of numbers."
            )
        self._num_pixels = self._spec.shape[1:].num_elements()
        # One yes-or-no output has two classes.
        self._num_classes = 0 if makes_numbers else max(mean.shape[1], 2)
        self._draws = None
        if "sample" in model.signatures and not makes_numbers:
            # With frozen draws, `sample` takes no scalars.
            scalars = set(model.specs("sample")) - {self._key}
            self._draws = {"num_samples": num_draws} if scalars else {}

    @property
    def max_bytes(self) -> int:
        """The most bytes of a question; no picture of the model's size needs more."""
        return self._num_pixels * _BYTES_OF_NUMBER + _BYTES_AROUND

    def facts(self) -> dict:
        """What the page has to know about the model."""
        height, width, channels = self._spec.shape[1:]
        return {
            "height": height,
            "width": width,
            "channels": channels,
            "num_classes": self._num_classes,
            "has_draws": self._draws is not None,
            "name": "/".join(Path(self._model.path).parts[-2:]),
            "metrics": _metrics(self._model.card),
            "promise": self._promise.facts(),
            "class_names": class_names(
                self._model.card, "", self._num_classes
            ).tolist(),
        }

    def answer(self, body) -> dict:
        """Mean, scores and draws for one picture."""
        pixels, seed, level = self._checked(body)
        inputs: dict[str, ArrayLike] = {self._key: pixels}
        answers = {name: value[0] for name, value in self._model(inputs).items()}
        samples = None
        if self._draws is not None:
            scalars = {**self._draws, "seed": seed} if self._draws else {}
            samples = self._model({**inputs, **scalars}, "sample")["samples"][0]
        numbers = [*answers.values(), *([] if samples is None else [samples])]
        if not all(np.isfinite(value).all() for value in numbers):
            raise ScoringProblem(
                "The model answers with numbers that are not finite: has its training "
                "diverged?"
            )
        mean = answers.pop("mean")
        if self._num_classes:
            mean = as_two_classes(mean)
            samples = samples if samples is None else as_two_classes(samples)
        return {
            "mean": np.asarray(mean).tolist(),
            "scores": {k: float(v) for k, v in sorted(answers.items()) if not v.ndim},
            "samples": None if samples is None else np.asarray(samples).tolist(),
            **self._promise.answer(inputs, level),
        }

    def _checked(self, body) -> tuple[np.ndarray, int, object]:
        body = body if isinstance(body, dict) else {}
        seed = body.get("seed", 0)
        if type(seed) is not int or not 0 <= seed <= _MAX_SEED:
            raise ScoringProblem(f"`seed` has to be an integer from 0 to {_MAX_SEED}.")
        pixels = body.get("pixels")
        shape = self._spec.shape[1:]
        # Refuses booleans, whose type is not int, and NaN, which fails comparisons.
        if (
            not isinstance(pixels, list)
            or len(pixels) != self._num_pixels
            or not all(type(v) in (int, float) and 0 <= v <= 255 for v in pixels)
        ):
            raise ScoringProblem(
                f"`pixels` has to be a list of {self._num_pixels} numbers from 0 to "
                f"255, for an image of the shape {tuple(shape)}."
            )
        values = np.array(pixels, np.float32).reshape(1, *shape)
        if self._spec.dtype == tf.uint8:
            values = np.round(values).astype(np.uint8)
        else:
            values = (values / 255).astype(self._spec.dtype.as_numpy_dtype)
        return values, seed, body.get("level")


def _metrics(card) -> dict:
    """The model's quality from the model card, as far as it can be read."""
    metrics = card.get("metrics")
    if not isinstance(metrics, dict):
        return {}
    return {
        name: value
        for name, value in metrics.items()
        if type(value) in (int, float) and math.isfinite(value)
    }
