"""Sends the requests of saved_models/ to a server, and checks its answers.

    python -m trainers.serve_check
    python -m trainers.serve_check --address=localhost:8501
    python -m trainers.serve_check --address=localhost:8500 --protocol=grpc

Without an address the SavedModel itself is asked, without any server. Answers that are
seeded or without noise have to equal those on file; `serving_default`, which draws
anew, has to come near them, and has to differ between two requests. With `--frozen`, it
has to equal them: for models whose draws are frozen, such as calibrated ones.
"""

import dataclasses
import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import numpy as np
import tensorflow as tf

from bhn_tf.scoring import keras_file
from bhn_tf.serving import versions
from bhn_tf.serving.problems import ScoringProblem
from bhn_tf.serving.served_model import ServedModel
from trainers.config import CheckedConfig, UsageProblem, flag, one_of, run_binary

#: How far a probability or score may be from the one on file: with other draws, and
#: where only rounding differs between machines.
TOLERANCE_OF_DRAWS = 0.2
TOLERANCE_OF_ROUNDING = 1e-3

_SECONDS = 30.0


@dataclasses.dataclass(frozen=True)
class Config(CheckedConfig):
    """Configuration of `trainers.serve_check`."""

    address: str = flag("", "host:port of TensorFlow Serving; empty for no server.")
    protocol: str = flag("rest", "What the port speaks.", **one_of("rest", "grpc"))
    model_name: str = flag("digits", "Name of the model on the server.")
    saved_model: str = flag("saved_models/digits", "Folder of versions, for no server.")
    requests: str = flag("saved_models/requests", "Folder of requests and answers.")
    frozen: bool = flag(False, "Whether all requests have to get the same draws.")


def run(config: Config) -> dict:
    """Sends every request, prints the answers and checks them.

    Returns:
        The answers by name of the request: arrays by name of the output.

    Raises:
        UsageProblem: If the server or the files cannot be reached, or an answer is
            not what it has to be.
    """
    bodies, expected = _requests_in(Path(config.requests))
    ask = _client(config)
    found = {name: ask(body, expected[name]) for name, body in bodies.items()}
    for name, answers in found.items():
        is_drawn = name == "serving_default" and not config.frozen
        tolerance = TOLERANCE_OF_DRAWS if is_drawn else TOLERANCE_OF_ROUNDING
        _check(name, answers, expected[name], tolerance)
        print(text_of(name, answers))
    again = ask(bodies["serving_default"], expected["serving_default"])
    first = found["serving_default"]
    are_same = all(np.array_equal(again[key], values) for key, values in first.items())
    if are_same and not config.frozen:
        raise UsageProblem(
            "Two requests had the same draws: the model is frozen. If it has to be, as "
            "a calibrated one, give --frozen."
        )
    print(f"All {len(found)} answers are as they have to be.")
    return found


def _requests_in(folder: Path) -> tuple[dict, dict]:
    """The requests of a folder, and the answers that they have to get, by name."""
    try:
        expected = json.loads((folder / "answers.json").read_bytes())
        bodies = {
            name: json.loads((folder / f"{name}.json").read_bytes())
            for name in expected
        }
        if "serving_default" not in bodies:
            raise ValueError("serving_default is not among them")
        for name, body in bodies.items():
            has_parts = isinstance(body, dict) and {"signature_name", "inputs"} <= set(
                body
            )
            if not has_parts or not all(
                isinstance(part, dict) for part in (body["inputs"], expected[name])
            ):
                raise ValueError(f"{name} has no `signature_name`, or no names")
    except (OSError, ValueError, TypeError) as error:
        raise UsageProblem(
            f"--requests={folder} holds no answers.json with a request for each "
            f"answer: {error}."
        ) from error
    return bodies, expected


def text_of(name: str, answers: dict) -> str:
    """An answer as it is printed: each output, with the class that a mean says."""
    lines = [name]
    for key, values in sorted(answers.items()):
        if key == "mean":
            lines.append(f"  {'class':20}{values.argmax(axis=-1).tolist()}")
        if values.ndim == 1:
            numbers = "  ".join(f"{value:.2f}" for value in values)
            lines.append(f"  {key:20}{numbers}")
        else:
            lines.append(f"  {key:20}of shape {list(values.shape)}")
    return "\n".join(lines)


def _check(name, answers, expected, tolerance) -> None:
    if set(answers) != set(expected):
        raise UsageProblem(
            f"{name} answers {sorted(answers)} instead of {sorted(expected)}."
        )
    for key, values in answers.items():
        wanted = np.asarray(expected[key])
        if values.shape != wanted.shape:
            raise UsageProblem(
                f"{name}: {key} has the shape {values.shape}, not {wanted.shape}."
            )
        if not {values.dtype.kind, wanted.dtype.kind} <= set("biuf"):
            raise UsageProblem(f"{name}: {key} does not hold numbers.")
        distance = float(np.max(np.abs(values * 1.0 - wanted), initial=0))
        if not distance <= tolerance:
            raise UsageProblem(
                f"{name}: {key} is {distance:.3g} from the answer on file, more than "
                f"{tolerance:g}. Is another model or version served?"
            )


# -- who is asked ------------------------------------------------------------------


def _client(config: Config) -> Callable[[dict, dict], dict]:
    """Returns what answers a request, given the names of the outputs on file."""
    if config.protocol == "grpc" and not config.address:
        raise UsageProblem("--protocol=grpc: give the --address of the port, too.")
    if not config.address:
        return _of_file(latest_version(config.saved_model), config.requests)
    if config.protocol == "grpc":
        return _of_grpc(config.address, config.model_name)
    return _of_rest(config.address, config.model_name)


def _of_file(path, requests):
    try:
        answer = of_saved_model(path)
    except ScoringProblem as problem:
        raise UsageProblem(str(problem)) from problem

    def ask(body, _):
        try:
            return answer(body)
        except (LookupError, TypeError, ValueError, tf.errors.OpError) as error:
            raise UsageProblem(
                f"--saved_model={path} does not answer the requests in "
                f"--requests={requests}, which are those of another model "
                f"({type(error).__name__}: {str(error)[:300]})."
            ) from error

    return ask


def model_path(saved_model: str) -> str:
    """Returns a `.keras` file, or the newest version of a SavedModel.

    Raises:
        UsageProblem: If there is none.
    """
    return _found(keras_file.model_path, saved_model)


def latest_version(folder) -> str:
    """Returns the version that a server would load.

    Raises:
        UsageProblem: If there is none.
    """
    return _found(versions.latest_version, folder)


def _found(look_for, path) -> str:
    try:
        return look_for(path)
    except FileNotFoundError as error:
        raise UsageProblem(f"--saved_model={error}") from error


def of_saved_model(path: str) -> Callable[[dict], dict]:
    """Returns a function that answers the body of a request from the model itself.

    Args:
        path: One version of a SavedModel.
    """
    served = ServedModel(path)
    return lambda body: served(body["inputs"], body["signature_name"])


def _of_rest(address, model_name):
    url = f"http://{address}/v1/models/{model_name}:predict"

    def ask(body, names):
        request = urllib.request.Request(url, json.dumps(body).encode())
        try:
            with urllib.request.urlopen(request, timeout=_SECONDS) as response:
                outputs = json.load(response)["outputs"]
            if not isinstance(outputs, dict):
                # The server leaves out the name of the only output.
                outputs = {next(iter(names), ""): outputs}
            return {key: np.asarray(value) for key, value in outputs.items()}
        except urllib.error.HTTPError as error:
            reason = error.read().decode(errors="replace")[:500]
            raise UsageProblem(f"{url} answers {error.code}: {reason}") from error
        except OSError as error:
            raise UsageProblem(f"--address={address}: {url}: {error}") from error
        except (http.client.HTTPException, LookupError, TypeError, ValueError) as error:
            raise UsageProblem(
                f"--address={address}: {url} is no REST port of TensorFlow Serving "
                f"({error!r}). The port of gRPC needs --protocol=grpc."
            ) from error

    return ask


def _of_grpc(address, model_name):
    try:
        import grpc
        from tensorflow_serving.apis import (
            get_model_metadata_pb2,
            predict_pb2,
            prediction_service_pb2_grpc,
        )
    except ImportError as error:
        raise UsageProblem(
            f"--protocol=grpc needs another package ({error}); install it with: "
            "pip install tensorflow-serving-api"
        ) from error
    stub = prediction_service_pb2_grpc.PredictionServiceStub(
        grpc.insecure_channel(address)
    )

    def answer(call, request):
        request.model_spec.name = model_name
        try:
            return call(request, timeout=_SECONDS)
        except grpc.RpcError as error:
            raise UsageProblem(f"--address={address}: {error.details()}") from error

    def served_dtypes(signature_name):
        request = get_model_metadata_pb2.GetModelMetadataRequest()
        request.metadata_field.append("signature_def")
        found = get_model_metadata_pb2.SignatureDefMap()
        answer(stub.GetModelMetadata, request).metadata["signature_def"].Unpack(found)
        inputs = found.signature_def[signature_name].inputs
        return {key: tf.dtypes.as_dtype(info.dtype) for key, info in inputs.items()}

    def ask(body, _):
        signature_name = body["signature_name"]
        dtypes = served_dtypes(signature_name)
        request = predict_pb2.PredictRequest()
        request.model_spec.signature_name = signature_name
        for key, value in body["inputs"].items():
            try:
                proto = tf.make_tensor_proto(value, dtypes[key])
            except (LookupError, TypeError, ValueError) as error:
                raise UsageProblem(
                    f"--address={address}: {signature_name} of --model_name="
                    f"{model_name} does not take the {key!r} of the requests, which "
                    f"are those of another model ({error!r:.300})."
                ) from error
            request.inputs[key].CopyFrom(proto)
        outputs = answer(stub.Predict, request).outputs
        return {key: tf.make_ndarray(value) for key, value in outputs.items()}

    return ask


def main() -> None:
    """Runs what the command line asks for."""
    run_binary(Config, run)


if __name__ == "__main__":
    main()
