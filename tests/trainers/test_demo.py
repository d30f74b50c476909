"""The page of a model: its answers, what it refuses, and a person in a browser."""

import contextlib
import dataclasses
import json
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from unittest import mock

import numpy as np
import pytest
import tensorflow as tf

import bhn_tf
from bhn_tf.serving.problems import ScoringProblem
from tests import networks
from trainers import demo
from trainers.config import UsageProblem

FOLDER = pathlib.Path(__file__).parents[2] / "saved_models"
CONFIG = demo.Config(str(FOLDER / "digits"), num_draws=7, port=0)


@pytest.fixture(scope="module")
def seven():
    body = json.loads((FOLDER / "requests" / "deterministic.json").read_text())
    return np.array(body["inputs"]["inputs"][0], "uint8")


# -- over HTTP ---------------------------------------------------------------------


@pytest.fixture(scope="module")
def client():
    pytest.importorskip("flask", reason="needs the extra `demo`")
    from bhn_tf.demo import create_app

    return create_app(CONFIG.saved_model, num_draws=7).test_client()


def test_a_seven_is_seen(client, seven):
    body = {"pixels": seven.ravel().tolist(), "seed": 3}
    answer = client.post("/answer", json=body).get_json()
    samples = np.array(answer["samples"])
    assert np.argmax(answer["mean"]) == 7
    assert samples.shape == (7, 10)
    np.testing.assert_allclose(samples.sum(axis=1), 1, rtol=1e-5)
    assert set(answer["scores"]) == set(bhn_tf.uncertainty.SCORES)
    again = client.post("/answer", json=body).get_json()
    assert again["samples"] == answer["samples"]
    other = client.post("/answer", json={**body, "seed": 4}).get_json()
    assert other["samples"] != answer["samples"]


def test_the_page_loads_nothing_from_elsewhere(client):
    for name in ["/", "/page.js", "/page.css"]:
        with client.get(name) as response:
            assert response.status_code == 200
            assert "//" not in re.sub(r"^\s*//.*$", "", response.text, flags=re.M)
    model = client.get("/model").get_json()
    assert (model["height"], model["channels"], model["num_classes"]) == (28, 1, 10)
    assert model["name"] == "digits/1"
    assert model["metrics"]["accuracy"] > 0.9


def of(*pixels, rest="0"):
    """A request as text: these pixels, then `rest` up to 784."""
    return f'{{"pixels": [{", ".join([*pixels, *[rest] * (784 - len(pixels))])}]}}'


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[]",
        "{}",
        "[" * 20_000,
        '{"pixels": ' * 2_000,
        '{"pixels": 3}',
        '{"pixels": [0, 0, 0]}',
        of(rest="256"),
        of("-1"),
        of("NaN"),
        of("Infinity"),
        of("1e999"),
        of(str(10**400)),
        of("1" * 5_000),
        of('"7"'),
        of("true"),
        of("null"),
        of("[0]"),
        of()[:-1] + ', "seed": -1}',
        of()[:-1] + ', "seed": 1.5}',
        of()[:-1] + ', "seed": true}',
        of()[:-1] + ', "seed": "x"}',
        b"\xff\xfe",
    ],
    ids=lambda text: repr(text[:20]),
)
def test_what_is_no_picture_is_refused(client, text):
    response = client.post("/answer", data=text, content_type="application/json")
    assert response.status_code == 400
    assert re.search("pixels|seed", response.get_json()["error"])


def test_a_question_larger_than_its_picture_is_not_read(client):
    text = of(rest="0" * 40)
    response = client.post("/answer", data=text, content_type="application/json")
    assert response.status_code == 413 and response.get_json()["error"]


def test_other_pages_cannot_ask(client):
    # A form on any page can send this without a preflight request.
    response = client.post("/answer", data=of(), content_type="text/plain")
    assert response.status_code == 400
    for host in ("localhost:8000", "127.0.0.1", "[::1]:8000"):
        assert client.get("/model", headers={"Host": host}).status_code == 200
    for host in ("evil.example", "localhost.evil.example:8000", "", "[::1"):
        for name in ("/", "/model", "/page.js"):
            assert client.get(name, headers={"Host": host}).status_code == 400


def test_who_listens_for_others_is_asked_by_any_name(monkeypatch):
    pytest.importorskip("flask", reason="needs the extra `demo`")
    asked = []
    monkeypatch.setattr(
        "bhn_tf.demo.create_app",
        lambda path, draws, hosts, output: asked.append(hosts),
    )
    for host in ("localhost", "0.0.0.0", "LOCALHOST", "127.0.0.2"):
        config = dataclasses.replace(CONFIG, host=host)
        demo.make_server(config).server_close()
    assert "localhost" in asked[0] and asked[1] is None
    # Only this machine reaches these; a foreign domain may resolve to them.
    assert "localhost" in asked[2] and "127.0.0.2" in asked[3]


@pytest.mark.parametrize("hosts", ["Demo.example.org", ["demo.example.org"]])
def test_a_host_is_a_whole_name(hosts):
    create_app = pytest.importorskip("bhn_tf.demo").create_app
    client = create_app(CONFIG.saved_model, hosts=hosts).test_client()
    for host, status in {"demo.example.org": 200, "example.org": 400, "": 400}.items():
        assert client.get("/model", headers={"Host": host}).status_code == status


def test_a_refused_method_comes_with_those_that_are_not(client):
    response = client.put("/answer")
    assert response.status_code == 405 and "POST" in response.headers["Allow"]
    assert "not allowed" in response.get_json()["error"]


def test_the_address_of_a_host_with_colons_can_be_opened(monkeypatch, capsys):
    server = mock.Mock(server_port=8000)
    monkeypatch.setattr(demo, "make_server", lambda config: server)
    demo.run(dataclasses.replace(CONFIG, host="::1"))
    assert "Open http://[::1]:8000 " in capsys.readouterr().out


def test_a_damaged_card_is_passed_over(client, tmp_path):
    from bhn_tf.demo import create_app

    path = shutil.copytree(FOLDER / "digits" / "1", tmp_path / "1")
    client = create_app(path).test_client()
    for card in ("", "[]", "{}", '{"metrics": [1]}', "[" * 20_000):
        (path / "assets.extra" / "model_card.json").write_text(card)
        assert client.get("/model").get_json()["metrics"] == {}
    text = '{"metrics": {"nll": NaN, "name": "x", "accuracy": 0.5}}'
    (path / "assets.extra" / "model_card.json").write_text(text)
    assert client.get("/model").get_json()["metrics"] == {"accuracy": 0.5}


@pytest.mark.slow
def test_a_model_of_floats_with_frozen_draws(tmp_path):
    pytest.importorskip("flask", reason="needs the extra `demo`")
    from bhn_tf.demo import create_app

    network = networks.keras.Sequential(
        [
            networks.keras.Input((2, 2, 3)),
            networks.keras.layers.Flatten(),
            bhn_tf.layers.WeightNormDense(3),
        ]
    )
    model = bhn_tf.BayesianHypernet(network, "mean_field")
    path = model.export(tmp_path, 5, ensemble=True)
    client = create_app(path, num_draws=7).test_client()
    pixels = np.arange(12) * 20
    answer = client.post("/answer", json={"pixels": pixels.tolist()}).get_json()
    inputs = tf.constant(pixels.reshape(1, 2, 2, 3) / 255, tf.float32)
    loaded = tf.saved_model.load(path)
    mean = loaded.signatures["serving_default"](inputs=inputs)["mean"]
    np.testing.assert_allclose(answer["mean"], mean[0], rtol=1e-5)
    assert np.shape(answer["samples"]) == (5, 3)

    # A model whose training has diverged.
    model.primary.layers[-1].bias.assign([np.nan] * 3)
    path = model.export(tmp_path, 5, ensemble=True)
    client = create_app(path).test_client()
    response = client.post("/answer", json={"pixels": pixels.tolist()})
    assert response.status_code == 400 and "not finite" in response.json["error"]

    model.primary.layers[-1].bias.assign([0.0] * 3)
    path = model.export(tmp_path, 5, signatures="serving_default")
    client = create_app(path).test_client()
    answer = client.post("/answer", json={"pixels": pixels.tolist()}).get_json()
    assert answer["samples"] is None and not client.get("/model").json["has_draws"]


# -- of a calibrated model -----------------------------------------------------------

NAMES = [f"kind {index}" for index in range(3)]


def of_pictures(likelihood, units, score=None):
    """A network for pictures, and the targets of 60 of them."""
    layers = networks.keras.layers
    network = networks.keras.Sequential(
        [networks.keras.Input((8, 8, 1)), layers.Flatten(), layers.Dense(units)]
    )
    rng = np.random.default_rng(0)
    pictures = rng.uniform(size=(60, 8, 8, 1)).astype("float32")
    model = bhn_tf.baselines.Deterministic(network, likelihood)
    numbers = pictures.reshape(60, -1)[:, :units]
    y = numbers if likelihood == "gaussian" else np.argmax(numbers, axis=1)
    calibrated = bhn_tf.conformal.calibrate(
        model, pictures, y, score=score, num_samples=0
    )
    return calibrated, pictures


@pytest.fixture(scope="module")
def calibrated(tmp_path_factory):
    model, pictures = of_pictures("categorical", 3)
    path = model.export(tmp_path_factory.mktemp("sets"), class_names=NAMES)
    return model, pictures, path


def test_a_set_is_answered_at_the_level_asked_for(calibrated):
    pytest.importorskip("flask", reason="needs the extra `demo`")
    from bhn_tf.demo import create_app

    model, pictures, path = calibrated
    client = create_app(path).test_client()
    facts = client.get("/model").get_json()
    assert facts["class_names"] == NAMES
    promise = facts["promise"]
    assert (promise["kind"], promise["num_rows"], promise["level"]) == ("set", 60, 0.9)
    # 60 rows do not reach 99 %.
    assert promise["levels"] == [0.5, 0.8, 0.9, 0.95]
    body = {"pixels": (255 * pictures[0].ravel()).tolist()}
    for level in (None, 0.5, 0.9):
        answer = client.post("/answer", json={**body, "level": level}).get_json()
        expected = model.predict_set(pictures[:1], level or 0.9, verbose=0)[0]
        assert answer["set"] == np.flatnonzero(expected).tolist()
    for level in (0, 1, 1.5, -0.1, 0.99, "0.9", True, [0.9]):
        response = client.post("/answer", json={**body, "level": level})
        assert response.status_code == 400 and "level" in response.json["error"]


@pytest.mark.slow
def test_a_yes_or_no_output_has_two_classes(tmp_path):
    pytest.importorskip("flask", reason="needs the extra `demo`")
    from bhn_tf.demo import create_app

    model, pictures = of_pictures("bernoulli", 1)
    client = create_app(model.export(tmp_path, class_names=NAMES[:2])).test_client()
    facts = client.get("/model").get_json()
    assert (facts["num_classes"], facts["class_names"]) == (2, NAMES[:2])
    body = {"pixels": (255 * pictures[0].ravel()).tolist(), "level": 0.8}
    answer = client.post("/answer", json=body).get_json()
    (yes,) = model.predict(pictures[:1], verbose=0)[0]
    np.testing.assert_allclose(answer["mean"], [1 - yes, yes], rtol=1e-5)
    np.testing.assert_allclose(answer["samples"], [[1 - yes, yes]], rtol=1e-5)
    expected = model.predict_set(pictures[:1], 0.8, verbose=0)[0]
    assert answer["set"] == np.flatnonzero(expected).tolist()


def test_an_interval_is_answered_from_a_keras_file(tmp_path):
    pytest.importorskip("flask", reason="needs the extra `demo`")
    model, pictures = of_pictures("gaussian", 2)
    model.save(tmp_path / "model.keras")
    config = dataclasses.replace(CONFIG, saved_model=str(tmp_path / "model.keras"))
    server = demo.make_server(config)
    server.server_close()
    client = server.app.test_client()
    facts = client.get("/model").get_json()
    assert facts["promise"]["kind"] == "interval" and facts["num_classes"] == 0
    body = {"pixels": (255 * pictures[0].ravel()).tolist(), "level": 0.8}
    answer = client.post("/answer", json=body).get_json()
    bounds = model.predict_interval(pictures[:1], 0.8, verbose=0)
    found = np.transpose(answer["interval"])
    np.testing.assert_allclose(found, np.squeeze(bounds), rtol=1e-6)
    model, _ = of_pictures("gaussian", 2, "upper_bound")
    model.save(tmp_path / "model.keras")
    server = demo.make_server(config)
    server.server_close()
    answer = server.app.test_client().post("/answer", json=body).get_json()
    _, upper = model.predict_interval(pictures[:1], 0.8, verbose=0)
    no_bounds, bounds = zip(*answer["interval"], strict=True)
    assert no_bounds == (None, None)
    np.testing.assert_allclose(bounds, upper[0], rtol=1e-6)
    with pytest.raises(UsageProblem, match=r"--saved_model=none\.keras"):
        demo.make_server(dataclasses.replace(CONFIG, saved_model="none.keras"))


# -- of a model of several outputs ---------------------------------------------------


@pytest.fixture(scope="module")
def several(tmp_path_factory):
    """Two outputs of classes, one of them calibrated class by class, and numbers."""
    pytest.importorskip("flask", reason="needs the extra `demo`")
    layers = networks.keras.layers
    inputs = networks.keras.Input((8, 8, 1))
    flat = layers.Flatten()(inputs)
    units = {"size": 2, "size_class": 3, "rare": 2}
    outputs = {
        name: bhn_tf.layers.WeightNormDense(number, name=name)(flat)
        for name, number in units.items()
    }
    likelihood = {name: "categorical" for name in units} | {"size": "gaussian"}
    model = bhn_tf.BayesianHypernet(
        networks.keras.Model(inputs, outputs),
        bhn_tf.hypernets.MeanField(initial_stddev=1.0),
        likelihood,
    )
    rng = np.random.default_rng(0)
    pictures = rng.uniform(size=(60, 8, 8, 1)).astype("float32")
    numbers = pictures.reshape(60, -1)
    y = {
        "size": numbers[:, :2],
        "size_class": np.argmax(numbers[:, :3], axis=1),
        # 12 rows reach 90 %, and no more.
        "rare": np.arange(60) < 12,
    }
    calibrated = bhn_tf.conformal.calibrate(
        model, pictures, y, num_samples=5, by={"rare": "class"}
    )
    path = calibrated.export(
        tmp_path_factory.mktemp("several"),
        class_names={"size_class": NAMES},
        metrics={"size_mae": 0.5, "size_class_accuracy": 0.25, "nll": 1.0},
    )
    return calibrated, pictures, path


def answered(several, output, level=None):
    """The facts on the page of an output, and its answer for the first picture."""
    from bhn_tf.demo import create_app

    _, pictures, path = several
    client = create_app(path, output=output).test_client()
    body = {"pixels": (255 * pictures[0].ravel()).tolist(), "level": level}
    return client.get("/model").get_json(), client.post("/answer", json=body)


def test_an_output_of_classes_is_shown(several):
    model, pictures, _ = several
    row = pictures[:1]
    facts, response = answered(several, "size_class", 0.5)
    answer = response.get_json()
    assert facts["name"].endswith("/1 (output 'size_class')")
    assert facts["class_names"] == NAMES and facts["metrics"] == {"accuracy": 0.25}
    assert facts["promise"]["kind"] == "set" and facts["promise"]["num_rows"] == 60
    mean = model.predict(row, verbose=0)["size_class"][0]
    np.testing.assert_allclose(answer["mean"], mean, rtol=1e-5)
    samples = model.predict_samples(row, verbose=0)["size_class"][0]
    assert samples.shape == (5, 3)
    np.testing.assert_allclose(answer["samples"], samples, rtol=1e-5)
    scores = model.predict_uncertainty(row, verbose=0)["size_class"]
    assert set(answer["scores"]) == set(bhn_tf.uncertainty.SCORES)
    for name, score in answer["scores"].items():
        np.testing.assert_allclose(score, scores[name][0], rtol=1e-4, atol=1e-6)
    held = model.predict_set(row, 0.5, verbose=0)["size_class"][0]
    assert answer["set"] == np.flatnonzero(held).tolist()


@pytest.mark.slow
def test_levels_are_those_of_all_outputs_that_are_asked_together(several):
    # 60 rows reach 95 %, but the set of `rare` is asked for at the same level.
    for output, levels in (
        ("size_class", [0.5, 0.8, 0.9]),
        ("rare", [0.5, 0.8, 0.9]),
        ("size", [0.5, 0.8, 0.9, 0.95]),
    ):
        facts, response = answered(several, output, 0.95)
        assert facts["promise"]["levels"] == levels
        assert response.status_code == (200 if 0.95 in levels else 400)


@pytest.mark.slow
def test_an_output_of_numbers_is_shown(several):
    model, pictures, _ = several
    facts, response = answered(several, "size", 0.8)
    answer = response.get_json()
    assert facts["num_classes"] == 0 and facts["metrics"] == {"mae": 0.5}
    mean = model.predict(pictures[:1], verbose=0)["size"][0]
    np.testing.assert_allclose(answer["mean"], mean, rtol=1e-5)
    bounds = model.predict_interval(pictures[:1], 0.8, verbose=0)
    bounds = [each["size"][0] for each in bounds]
    np.testing.assert_allclose(np.transpose(answer["interval"]), bounds, rtol=1e-5)
    assert "set" not in answer and answer["samples"] is None


@pytest.mark.slow
def test_an_output_has_to_be_named_and_known(several, tmp_path):
    from bhn_tf.demo import create_app

    model, _, path = several
    config = dataclasses.replace(CONFIG, saved_model=path)
    for output, message in [
        ("", r"\['rare', 'size', 'size_class'\].* `output=`, or --output="),
        ("age", r"no output 'age': its outputs are \['rare', 'size', 'size_class'\]"),
    ]:
        with pytest.raises(UsageProblem, match=message):
            demo.make_server(dataclasses.replace(config, output=output))
    demo.make_server(dataclasses.replace(config, output="rare")).server_close()
    with pytest.raises(ScoringProblem, match="no outputs with names.*'age'"):
        create_app(CONFIG.saved_model, output="age")
    # Numbers without a promise.
    path = model.export(tmp_path, ("serving_default", "predict_set"))
    with pytest.raises(ScoringProblem, match="output 'size'.*a calibrated model of"):
        create_app(path, output="size")


# -- refused before it serves ------------------------------------------------------


def test_numbers_of_which_nothing_is_promised_are_no_classes(tmp_path):
    create_app = pytest.importorskip("bhn_tf.demo").create_app
    model, _ = of_pictures("gaussian", 3)
    with pytest.raises(ScoringProblem, match=r"answers .*'std'.*calibrated model of"):
        create_app(model.model.export(tmp_path))


@pytest.mark.slow
def test_what_cannot_be_served_is_named(tmp_path):
    pytest.importorskip("flask", reason="needs the extra `demo`")
    model = bhn_tf.BayesianHypernet(networks.plain(), "mean_field")
    vectors = model.export(tmp_path, 2)
    with socket.create_server(("localhost", 0)) as taken:
        port = taken.getsockname()[1]
        for wrong, message in [
            ({"saved_model": "nowhere"}, "--saved_model=nowhere"),
            ({"saved_model": vectors}, "holds images"),
            ({"port": port}, f"--port={port}"),
        ]:
            with pytest.raises(UsageProblem, match=message):
                demo.make_server(dataclasses.replace(CONFIG, **wrong))
    from bhn_tf.demo import create_app

    # Requests may not ask for more.
    with pytest.raises(ScoringProblem, match="`num_draws` from 1 to 10000, got 20000"):
        create_app(CONFIG.saved_model, num_draws=20_000)
    for wrong in (1.5, "3", None):
        with pytest.raises(ScoringProblem, match=f"`num_draws`.* got {wrong!r}"):
            create_app(CONFIG.saved_model, num_draws=wrong)
    with pytest.raises(UsageProblem, match="--num_draws=20000"):
        dataclasses.replace(CONFIG, num_draws=20_000)
    with pytest.raises(UsageProblem, match="--port=70000"):
        dataclasses.replace(CONFIG, port=70_000)


@pytest.fixture
def impatient(monkeypatch, request):
    """The address of a server that soon runs out of patience or threads."""
    pytest.importorskip("flask", reason="needs the extra `demo`")
    monkeypatch.setattr(demo, "_SECONDS", getattr(request, "param", 0.3))
    monkeypatch.setattr(demo, "_MOST_CONNECTIONS", 2)
    server = demo.make_server(CONFIG)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield "localhost", server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


HEAD = b"POST /answer HTTP/1.1\r\nHost: localhost\r\n"
BODY = HEAD + b"Content-Type: application/json\r\nContent-Length: 99\r\n\r\n["


def all_that_comes(connection):
    return b"".join(iter(lambda: connection.recv(4096), b""))


@pytest.mark.parametrize("sent", [b"", HEAD, BODY])
def test_a_client_that_sends_nothing_more_is_left(impatient, sent):
    with socket.create_connection(impatient, timeout=10) as connection:
        connection.sendall(sent)
        answer = all_that_comes(connection)
    assert answer.startswith(b"HTTP/1.1 400" if sent == BODY else b"")
    assert (sent == BODY) == bool(answer)


@pytest.mark.parametrize("sent", [b"GET /", HEAD + b"X: ", BODY])
def test_a_client_that_sends_ever_more_is_left(impatient, sent):
    with socket.create_connection(impatient, timeout=10) as connection:
        connection.sendall(sent)
        started = time.monotonic()
        # Never silent for as long as a client may be.
        with contextlib.suppress(ConnectionError):
            while time.monotonic() < started + 10:
                connection.sendall(b" ")
                time.sleep(0.1)
    assert time.monotonic() < started + 5


@pytest.mark.parametrize("impatient", [30.0], indirect=True)
def test_more_clients_than_it_bears_are_sent_away(impatient):
    def answer():
        with (
            contextlib.suppress(ConnectionError),
            socket.create_connection(impatient, timeout=10) as connection,
        ):
            connection.sendall(b"GET /model HTTP/1.1\r\nHost: localhost\r\n\r\n")
            return all_that_comes(connection)
        return b""

    with contextlib.ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(socket.create_connection(impatient, timeout=10))
        assert answer() == b""
    # Closed connections make room.
    deadline = time.monotonic() + 10
    while not (found := answer()) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert found.startswith(b"HTTP/1.1 200")


def test_without_flask_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "flask", None)
    with pytest.raises(UsageProblem, match=r"bhn-tf\[demo\]"):
        demo.make_server(CONFIG)


@pytest.mark.parametrize("name", ["demo", "score"])
def test_help_needs_no_extra(name):
    code = (
        "import sys, runpy; sys.modules |= dict.fromkeys(['flask', 'pyarrow']); "
        f"sys.argv = ['{name}', '--help']; "
        f"runpy.run_module('trainers.{name}', run_name='__main__')"
    )
    root = FOLDER.parent
    process = subprocess.run(
        [sys.executable, "-c", code], cwd=root, capture_output=True, text=True
    )
    assert "--saved_model" in process.stdout.replace("--[no]", "--")
    assert "Traceback" not in process.stderr


# -- in a browser ----------------------------------------------------------------------


@contextlib.contextmanager
def served(config):
    pytest.importorskip("flask", reason="needs the extra `demo`")
    server = demo.make_server(config)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://localhost:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def address():
    with served(CONFIG) as address:
        yield address


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="a browser is driven by playwright"
    )
    path = shutil.which("chromium") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("no chromium or google-chrome on this machine")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=path,
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
        )
        yield browser
        browser.close()


@contextlib.contextmanager
def opened(browser, address, answered):
    """A page that has answered for the empty pad; its script may not fail."""
    page = browser.new_page(viewport={"width": 1180, "height": 700})
    errors = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda m: errors.append(m.text) if m.type == "error" else None)
    page.goto(address)
    page.wait_for_selector(answered)
    yield page
    page.close()
    assert not errors


@pytest.fixture
def page(browser, address):
    with opened(browser, address, ".score") as page:
        yield page


def stroke(page, points):
    box = page.locator("#pad").bounding_box()
    places = [(box["x"] + 280 * x, box["y"] + 280 * y) for x, y in points]
    with page.expect_response("**/answer"):
        page.mouse.move(*places[0])
        page.mouse.down()
        for place in places[1:]:
            page.mouse.move(*place, steps=8)
        page.mouse.up()


def test_a_person_draws_a_one(page):
    # Small and in a corner: the page centres it.
    stroke(page, [(0.2, 0.1), (0.2, 0.5)])
    best = page.locator(".row.best")
    best.get_by_text("1", exact=True).wait_for(timeout=5000)
    assert page.locator(".row").count() == 10
    assert page.locator(".row").first.locator(".tick").count() == 7
    votes = page.locator(".vote")
    assert votes.count() == 7
    agreeing = sum(text == "1" for text in votes.all_inner_texts())
    count = page.locator("#count").inner_text()
    assert count == f"{agreeing} of 7 networks drawn choose 1."
    names = page.locator(".score").evaluate_all("all => all.map(s => s.dataset.name)")
    assert set(names) == set(bhn_tf.uncertainty.SCORES)


@pytest.mark.slow
def test_a_sure_class_fits_on_one_line(page):
    lines = page.locator(".row .number").first.evaluate(
        """number => {
          number.textContent = "100.0 %";
          const range = document.createRange();
          range.selectNodeContents(number);
          const fits = number.scrollWidth <= number.clientWidth;
          return fits ? range.getClientRects().length : 0;
        }"""
    )
    assert lines == 1


@pytest.mark.slow
def test_a_person_asks_for_other_draws(page):
    lefts = "all => all.map(tick => tick.style.left)"
    stroke(page, [(0.3, 0.3), (0.7, 0.3), (0.4, 0.9)])
    page.wait_for_function("document.querySelector('.row.best .name').innerText == '7'")
    before = page.locator(".tick").evaluate_all(lefts)
    with page.expect_response("**/answer"):
        page.click("#again")
    page.wait_for_function(
        f"JSON.stringify(({lefts})([...document.querySelectorAll('.tick')])) != "
        f"{json.dumps(json.dumps(before, separators=(',', ':')))}"
    )


def test_a_person_opens_and_drops_an_image(page, seven, tmp_path):
    """Black on white, as on paper: inverted it is the seven that the model knows."""
    png = tf.io.encode_png(255 - seven).numpy()
    (tmp_path / "seven.png").write_bytes(png)
    page.check("#invert")
    page.set_input_files("#file", tmp_path / "seven.png")
    is_seven = "document.querySelector('.row.best .name').innerText == '7'"
    page.wait_for_function(is_seven)
    page.click("#clear")
    page.wait_for_function(f"!({is_seven})")
    page.evaluate(
        """bytes => {
          const data = new DataTransfer();
          data.items.add(new File([new Uint8Array(bytes)], "seven.png"));
          const drop = new DragEvent("drop", {dataTransfer: data, bubbles: true});
          document.getElementById("pad").dispatchEvent(drop);
        }""",
        list(png),
    )
    page.wait_for_function(is_seven)


def test_what_is_no_image_is_said(page, tmp_path):
    (tmp_path / "notes.txt").write_text("no image")
    page.set_input_files("#file", tmp_path / "notes.txt")
    page.get_by_text("notes.txt is no image").wait_for(timeout=5000)


def test_a_person_sees_first_what_holds(browser, calibrated, tmp_path):
    _, _, path = calibrated
    config = dataclasses.replace(CONFIG, saved_model=path)
    with served(config) as address, opened(browser, address, ".held") as page:
        assert page.locator("#level").input_value() == "0.9"
        assert "60 pictures" in page.locator("#promised").inner_text()
        first = page.locator("#promise").bounding_box()
        assert first["y"] < page.locator("main").bounding_box()["y"]
        assert page.locator(".row .name").first.inner_text() == "kind 0"
        with page.expect_response("**/answer") as asked:
            page.select_option("#level", "0.5")
        held = asked.value.json()["set"]
        page.wait_for_function(
            f"document.querySelectorAll('.held').length == {len(held)}"
        )
        texts = page.locator(".held").all_inner_texts()
        assert texts == [NAMES[index] for index in held]

    model, _ = of_pictures("gaussian", 2)
    config = dataclasses.replace(CONFIG, saved_model=model.export(tmp_path))
    with served(config) as address, opened(browser, address, ".held") as page:
        assert page.locator(".held").count() == 2
        assert "…" in page.locator(".held").first.inner_text()
        assert page.locator("#doubt").is_hidden()


@pytest.mark.slow
def test_nothing_is_promised_by_a_model_that_is_not_calibrated(page):
    assert page.locator("#promise").is_hidden()
