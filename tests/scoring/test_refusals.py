"""What does not fit is refused, if possible before any work."""

import os
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from bhn_tf import scoring
from bhn_tf.baselines import Deterministic
from bhn_tf.layers import WeightNormDense
from bhn_tf.scoring.guarantees import empty_columns
from tests import networks
from tests.scoring.scored_files import NUM_ROWS, example, read, score, write_records


def test_the_output_of_another_run(vectors, x, tmp_path):
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", x)
    output = tmp_path / "out.csv"
    score(vectors, [f"{tmp_path}/x.npy"], output)
    for change in [{"batch_size": 2}, {"inputs": [f"{tmp_path}/y.npy"]}]:
        arguments = {"inputs": [f"{tmp_path}/x.npy"], **change}
        with pytest.raises(scoring.ScoringProblem, match="another run"):
            score(vectors, output=output, **arguments)
    assert len(read(output)["id"]) == NUM_ROWS
    score(vectors, [f"{tmp_path}/y.npy"], output, overwrite=True)
    assert read(output)["id"][0] == f"{tmp_path}/y.npy:0"
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").touch()
    with pytest.raises(scoring.ScoringProblem, match="no run of scores"):
        score(vectors, [f"{tmp_path}/x.npy"], tmp_path / "mine", overwrite=True)
    assert (tmp_path / "mine" / "notes.txt").exists()


@pytest.mark.parametrize(
    "values, message",
    [
        (np.zeros([3, 5], "float32"), r"\(5,\).*\(4,\)"),
        (np.zeros([3, 4], "uint8"), "uint8.*float32"),
        (np.zeros([], "float32"), "no rows"),
        (np.zeros([0, 4], "float32"), "nothing to score"),
        (np.array([{}]), "array of numbers"),
    ],
)
def test_arrays_that_the_model_does_not_take(vectors, tmp_path, values, message):
    np.save(tmp_path / "x.npy", values)
    with pytest.raises(scoring.ScoringProblem, match=message):
        score(vectors, [f"{tmp_path}/x.npy"], tmp_path / "out.csv")
    assert not list(tmp_path.glob("out.csv/part-*"))


@pytest.mark.parametrize(
    "record, message",
    [
        (example(other=[1.0]), "named as the inputs"),
        (example(inputs=[1.0]), "1 values.*takes 4"),
        (example(inputs=[1, 2, 3, 4]), "int64.*float32"),
        (example(inputs=[b"", b""]), "2 byte strings"),
        (example(inputs=[b"rubbish"]), "neither a PNG"),
        (tf.io.serialize_tensor(tf.zeros([5])).numpy(), r"\(5,\)"),
        (b"rubbish", "neither a tf.train.Example"),
    ],
)
def test_records_that_the_model_does_not_take(vectors, tmp_path, record, message):
    path = tmp_path / "x.tfrecord"
    write_records(path, [record])
    with pytest.raises(scoring.ScoringProblem, match=message):
        score(vectors, [str(path)], tmp_path / "out.csv")
    assert not (tmp_path / "out.csv").exists()


def test_a_damaged_file_is_named(vectors, x, tmp_path):
    path = tmp_path / "x.tfrecord"
    write_records(path, [example(inputs=row) for row in x])
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(scoring.ScoringProblem, match=f"x.tfrecord, row {len(x) - 1}: "):
        score(vectors, [str(path)], tmp_path / "out.csv")


def test_integers_that_do_not_fit(images, pictures, tmp_path):
    np.save(tmp_path / "x.npy", pictures.astype("int32") + 1)
    with pytest.raises(scoring.ScoringProblem, match="256.*uint8"):
        score(images, [f"{tmp_path}/x.npy"], tmp_path / "out.csv")


def test_images_for_a_model_of_vectors(vectors, pictures, tmp_path):
    (tmp_path / "0.png").write_bytes(tf.io.encode_png(pictures[0]).numpy())
    with pytest.raises(scoring.ScoringProblem, match="holds images"):
        score(vectors, [str(tmp_path)], tmp_path / "out.csv")


@pytest.mark.parametrize(
    "change, message",
    [
        ({"inputs": ["nowhere-*.npy"]}, "No file matches"),
        ({"inputs": []}, "No input"),
        # As after one comma too many, which is not the folder where one works.
        ({"inputs": ["x.npy", ""]}, "No file matches ''"),
        ({"inputs": ["setup.txt"]}, "no file that can be scored"),
        ({"inputs": ["."]}, "holds no images"),
        ({"output": "x.npy"}, "is a file"),
        ({"output": "scores.json"}, "no format"),
        ({"rows_per_part": 5}, "no whole number"),
    ],
)
def test_arguments_without_sense(vectors, tmp_path, monkeypatch, change, message):
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", np.zeros([3, 4], "float32"))
    (tmp_path / "setup.txt").touch()
    before = sorted(os.listdir())
    arguments = {"inputs": ["x.npy"], "output": "out.csv", "format": "", **change}
    if arguments["output"] == "x.npy":
        arguments["format"] = "csv"
    with pytest.raises(scoring.ScoringProblem, match=message):
        score(vectors, **arguments)
    assert sorted(os.listdir()) == before


def test_rows_of_other_sizes_with_an_answer_for_each_element(tmp_path):
    network = keras.Sequential([keras.Input((None, 2)), WeightNormDense(3)])
    model = Deterministic(network)
    path = model.export(tmp_path / "model", signatures="serving_default")
    rows = np.random.default_rng(0).normal(size=(12, 5, 2)).astype("float32")
    tensors = [*rows[:4, :3], *rows[4:]]
    records = [tf.io.serialize_tensor(row).numpy() for row in tensors]
    write_records(tmp_path / "x.tfrecord", records)
    np.save(tmp_path / "3.npy", rows[:, :3])
    np.save(tmp_path / "5.npy", rows)
    expected = r"x.tfrecord:4: .* 45 columns .* 27 for those before: .*other sizes"
    with pytest.raises(scoring.ScoringProblem, match=expected):
        score(path, [f"{tmp_path}/x.tfrecord"], tmp_path / "records.csv")
    with pytest.raises(scoring.ScoringProblem, match=r"5.npy:0: .*other sizes"):
        score(path, [f"{tmp_path}/{n}.npy" for n in (3, 5)], tmp_path / "arrays.csv")
    assert score(path, [f"{tmp_path}/5.npy"], tmp_path / "5.csv").num_rows == 12
    with pytest.raises(scoring.ScoringProblem, match="columns are not known"):
        empty_columns(scoring.ServedModel(path), None)


def test_rows_that_the_network_cannot_answer_are_named(tmp_path):
    tokens = [keras.Input((2,), dtype="int32"), keras.layers.Embedding(5, 3)]
    network = [*tokens, keras.layers.Flatten(), keras.layers.Dense(3)]
    path = Deterministic(keras.Sequential(network)).export(tmp_path / "model")
    rows = np.zeros([10, 2], "int32")
    rows[6, 1] = 7
    np.save(tmp_path / "x.npy", rows)
    expected = r"x.npy:4 to .*x.npy:7: .*cannot answer.* = 7 is not in \[0, 5\)$"
    with pytest.raises(scoring.ScoringProblem, match=expected):
        score(path, [f"{tmp_path}/x.npy"], tmp_path / "out.csv")


@pytest.mark.parametrize(
    "request_, message",
    [
        ({"x": np.zeros([2, 4])}, "'inputs', which is missing"),
        ({"inputs": np.zeros([2, 3])}, r"\(2, 3\).*\(None, 4\)"),
        ({"inputs": np.zeros(4)}, r"\(4,\).*\(None, 4\)"),
        ({"inputs": [["a"] * 4]}, "cannot be read as float32"),
        ({"inputs": np.zeros([2, 4])}, "no signature 'sample'"),
    ],
)
def test_requests_that_do_not_fit_a_served_model(vectors, request_, message):
    asked = ["sample"] if "signature" in message else []
    with pytest.raises(scoring.ScoringProblem, match=message):
        scoring.ServedModel(vectors)(request_, *asked)


@pytest.mark.parametrize("value", [0.5, 300, -1])
def test_numbers_that_would_be_changed_are_refused(images, value):
    model = scoring.ServedModel(images)
    bytes_of = np.full([1, 4, 4, 1], 44)
    model({"inputs": bytes_of.tolist()})
    with pytest.raises(scoring.ScoringProblem, match="uint8, its dtype, cannot hold"):
        model({"inputs": np.where(bytes_of == 44, value, 0)})


@pytest.mark.parametrize("damage", [slice(0, -100), slice(100, None)])
def test_a_keras_file_that_is_damaged(x, tmp_path, damage):
    np.save(tmp_path / "x.npy", x)
    Deterministic(networks.plain()).save(tmp_path / "model.keras")
    contents = bytearray((tmp_path / "model.keras").read_bytes())
    contents[len(contents) // 3] ^= 255
    (tmp_path / "model.keras").write_bytes(contents[damage])
    with pytest.raises(scoring.ScoringProblem, match="cannot be loaded"):
        score(tmp_path / "model.keras", [f"{tmp_path}/x.npy"], tmp_path / "out.csv")


def test_a_keras_file_that_cannot_be_served(x, tmp_path):
    inputs = {"seed": keras.Input((4,), name="seed")}
    network = keras.Model(inputs, keras.layers.Dense(3)(inputs["seed"]))
    Deterministic(network).save(tmp_path / "model.keras")
    np.save(tmp_path / "x.npy", x)
    with pytest.raises(scoring.ScoringProblem, match="cannot be served: .*Rename"):
        score(tmp_path / "model.keras", [f"{tmp_path}/x.npy"], tmp_path / "out.csv")
    assert not (tmp_path / "out.csv").exists()


def test_parquet_without_its_package(vectors, x, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    np.save(tmp_path / "x.npy", x)
    with pytest.raises(ImportError, match=r"bhn-tf\[score\]"):
        score(vectors, [f"{tmp_path}/x.npy"], tmp_path / "scores")
    assert not (tmp_path / "scores").exists()
