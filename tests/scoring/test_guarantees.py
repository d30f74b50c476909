"""Columns of calibrated models hold the promised intervals or sets."""

import re

import keras
import numpy as np
import pytest
import tensorflow as tf

from bhn_tf import conformal, scoring
from bhn_tf.baselines import Deterministic
from bhn_tf.scoring.guarantees import Guarantee, level_name
from tests import networks
from tests.scoring.scored_files import read, score
from trainers import score as trainer
from trainers.config import UsageProblem

X, CLASSES = networks.data(60)
NAMES = ("bird", "fish", "cat")


@pytest.fixture(scope="module")
def sets():
    network = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
    return conformal.calibrate(Deterministic(network), X, CLASSES)


@pytest.fixture(scope="module")
def served_sets(sets, tmp_path_factory):
    return sets.export(tmp_path_factory.mktemp("sets"), class_names=NAMES)


@pytest.fixture(scope="module")
def several():
    inputs = keras.Input((4,))
    outputs = {name: keras.layers.Dense(2, name=name)(inputs) for name in ("age", "is")}
    likelihoods = {"age": "gaussian", "is": "categorical"}
    model = Deterministic(keras.Model(inputs, outputs), likelihoods)
    return conformal.calibrate(model, X, {"age": X[:, :2], "is": CLASSES % 2})


def as_texts(possible, names):
    return ["|".join(np.array(names)[row]) for row in possible]


@pytest.mark.slow
def test_a_set_is_a_column_of_names(sets, served_sets, tmp_path):
    np.save(tmp_path / "x.npy", X)
    output = tmp_path / "out.csv"
    score(served_sets, [f"{tmp_path}/x.npy"], output, level=0.8)
    table = read(output)
    assert list(table)[:3] == ["id", "set_80", "mean_0"]
    possible = sets.predict_set(X, 0.8, verbose=0)
    assert table["set_80"] == as_texts(possible, NAMES)
    numbers = dict(level=np.float64(0.8), batch_size=np.int64(4))
    assert score(served_sets, [f"{tmp_path}/x.npy"], output, **numbers).num_rows == 0
    other = tmp_path / "other.csv"
    score(served_sets, [f"{tmp_path}/x.npy"], other, level=np.float32(0.8))
    assert read(other) == table
    # The same run is finished; another level is another run.
    assert score(served_sets, [f"{tmp_path}/x.npy"], output, level=0.8).num_rows == 0
    for level in (0.7, None):
        with pytest.raises(scoring.ScoringProblem, match="level differ"):
            score(served_sets, [f"{tmp_path}/x.npy"], output, level=level)


@pytest.mark.slow
def test_bounds_of_several_outputs_from_a_keras_file(several, tmp_path):
    pytest.importorskip("pyarrow", reason="Parquet needs the extra `score`")
    from pyarrow import parquet

    several.save(tmp_path / "several.keras")
    np.save(tmp_path / "x.npy", X)
    config = trainer.Config(
        str(tmp_path / "several.keras"),
        (f"{tmp_path}/x.npy",),
        str(tmp_path / "scores"),
        batch_size=16,
        rows_per_part=32,
        level=0.9,
    )
    assert trainer.run(config)["num_parts"] == 2
    # Killed before the last part, the same command goes on with it.
    (tmp_path / "scores" / "part-00000-00001.parquet").unlink()
    (tmp_path / "scores" / "_SUCCESS").unlink()
    assert trainer.run(config)["num_rows"] == 28
    table = parquet.read_table(tmp_path / "scores").to_pydict()
    assert list(table)[1:6] == [
        "age_lower_90_0",
        "age_upper_90_0",
        "age_lower_90_1",
        "age_upper_90_1",
        "is_set_90",
    ]
    lower, upper = several.predict_interval(X, 0.9, verbose=0)
    for column in (0, 1):
        for name, bound in (("lower", lower), ("upper", upper)):
            found = table[f"age_{name}_90_{column}"]
            np.testing.assert_allclose(found, bound["age"][:, column], atol=1e-5)
    possible = several.predict_set(X, 0.9, verbose=0)["is"]
    assert table["is_set_90"] == as_texts(possible, ["0", "1"])


def test_a_broken_image_has_no_set(tmp_path):
    pytest.importorskip("pyarrow", reason="Parquet needs the extra `score`")
    from pyarrow import parquet

    network = [keras.Input((4, 4, 1)), keras.layers.Flatten(), keras.layers.Dense(3)]
    images = np.random.default_rng(0).uniform(size=(60, 4, 4, 1)).astype("float32")
    model = Deterministic(keras.Sequential(network))
    path = conformal.calibrate(model, images, CLASSES).export(tmp_path / "served")
    (tmp_path / "0.png").write_bytes(b"no image")
    png = tf.io.encode_png(np.zeros([4, 4, 1], "uint8")).numpy()
    (tmp_path / "1.png").write_bytes(png)
    score(path, [f"{tmp_path}/*.png"], tmp_path / "out", level=0.5, rows_per_part=4)
    found = parquet.read_table(tmp_path / "out").to_pydict()["set_50"]
    assert found[0] is None and found[1]


def test_what_promises_nothing_is_refused(served_sets, sets, vectors, tmp_path):
    np.save(tmp_path / "x.npy", X)
    for model, level, message in (
        (vectors, 0.9, "not calibrated"),
        (served_sets, 0.999, r"too few calibration rows .*0\.98"),
        (served_sets, 1.0, "probability"),
    ):
        with pytest.raises(scoring.ScoringProblem, match=message):
            score(model, [f"{tmp_path}/x.npy"], tmp_path / "out.csv", level=level)
    by_groups = conformal.calibrate(sets.model, X, CLASSES, by=CLASSES)
    path = by_groups.export(tmp_path / "grouped")
    with pytest.raises(scoring.ScoringProblem, match="by groups"):
        Guarantee(scoring.ServedModel(path), 0.9)
    config = trainer.Config("no.keras", ("x.npy",), "out.csv", level=0.9)
    with pytest.raises(UsageProblem, match=r"--saved_model=no\.keras"):
        trainer.run(config)
    (tmp_path / "broken.keras").write_bytes(b"no file")
    with pytest.raises(scoring.ScoringProblem, match="cannot be loaded"):
        score(str(tmp_path / "broken.keras"), [f"{tmp_path}/x.npy"], tmp_path / "out")
    assert not (tmp_path / "out.csv").exists()


def test_names_have_to_fit_the_classes(sets, several, tmp_path):
    with pytest.raises(ValueError, match="2 `class_names`.* 3 classes"):
        sets.export(tmp_path, class_names=["a", "b"])
    with pytest.raises(ValueError, match="'age' has 0 classes"):
        several.export(tmp_path, class_names={"age": ["a", "b"]})
    with pytest.raises(ValueError, match="the model has one output"):
        sets.export(tmp_path / "wrong", class_names={"kind": NAMES})
    network = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    numbers = conformal.calibrate(Deterministic(network, "gaussian"), X, X[:, :1])
    with pytest.raises(ValueError, match="predicts numbers"):
        numbers.export(tmp_path / "wrong", class_names=["a", "b"])
    for wrong, message in (("cat", "by a letter"), (["a", "b", "a"], "share a name")):
        with pytest.raises(ValueError, match=message):
            sets.export(tmp_path / "wrong", class_names=wrong)
    for wrong in ("b|c", ""):
        with pytest.raises(ValueError, match=rf"{re.escape(repr(wrong))}.*separated"):
            sets.export(tmp_path / "wrong", class_names=["a", wrong, "d"])
    assert not (tmp_path / "wrong").exists()
    path = several.export(tmp_path, class_names={"is": ["no", "yes"]})
    columns = Guarantee(scoring.ServedModel(path), 0.9).columns({"inputs": X})
    assert set(columns["is_set_90"]) <= {"no", "yes", "no|yes"}


def test_levels_are_named_in_percent():
    assert [level_name(v) for v in (0.9, 0.999, 0.05)] == ["90", "99p9", "5"]


@pytest.mark.slow
def test_beam_has_the_same_columns(served_sets, tmp_path):
    beam = pytest.importorskip("apache_beam", reason="needs the extra `beam`")
    from bhn_tf.beam import SavedModelHandler, parquet_schema

    assert beam is not None
    handler = SavedModelHandler(served_sets, level=0.8)
    found = handler.run_inference(list(X[:5]), handler.load_model())
    np.save(tmp_path / "x.npy", X[:5])
    score(served_sets, [f"{tmp_path}/x.npy"], tmp_path / "out.csv", level=0.8)
    table = read(tmp_path / "out.csv")
    assert [row.inference["set_80"] for row in found] == table["set_80"]
    schema = parquet_schema(served_sets, level=0.8)
    assert schema.names == list(table)
    assert str(schema.field("set_80").type) == "string"
