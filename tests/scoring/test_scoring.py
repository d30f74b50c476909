"""Files of every kind are scored once, row by row; a killed run goes on."""

import os

import keras
import numpy as np
import pytest
import tensorflow as tf

from bhn_tf import scoring
from bhn_tf.layers import WeightNormDense
from tests.scoring.scored_files import (
    NUM_ROWS,
    check,
    example,
    expected,
    exported,
    read,
    score,
    write_records,
)

# -- every kind of file --------------------------------------------------------------


def test_arrays_of_several_files(vectors, x, tmp_path):
    np.save(tmp_path / "x-0.npy", x[:10])
    np.save(tmp_path / "x-1.npy", x[10:].astype("float64"))
    ids = check(vectors, [f"{tmp_path}/x-*.npy"], tmp_path / "out.csv", x)
    assert ids[9:11] == [f"{tmp_path}/x-0.npy:9", f"{tmp_path}/x-1.npy:0"]
    # One part for each chunk: 10 = 8 + 2 and 13 = 8 + 5 rows.
    assert len(list((tmp_path / "out.csv").glob("part-*"))) == 4


def test_inputs_may_be_paths(vectors, x, tmp_path):
    np.save(tmp_path / "x 0.npy", x)
    for name, inputs in (("one", tmp_path / "x 0.npy"), ("all", [tmp_path / "*.npy"])):
        summary = scoring.score_files(vectors, inputs, tmp_path / f"{name}.csv")
        assert summary.num_rows == NUM_ROWS


@pytest.mark.parametrize("ending", ["tfrecord", "tfrecord-00000-of-00001.gz"])
def test_examples_of_numbers(vectors, x, tmp_path, ending):
    records = [example(inputs=row, id=[f"row {i}".encode()]) for i, row in enumerate(x)]
    path = tmp_path / f"x.{ending}"
    write_records(path, records, "GZIP" if ending.endswith("gz") else None)
    ids = check(vectors, [str(path)], tmp_path / "out.csv", x)
    assert ids == [f"row {i}" for i in range(NUM_ROWS)]


def test_serialized_tensors(vectors, x, tmp_path):
    path = tmp_path / "x.tfrecord"
    write_records(path, [tf.io.serialize_tensor(row).numpy() for row in x])
    assert check(vectors, [str(path)], tmp_path / "out.csv", x)[3] == f"{path}:3"


@pytest.mark.parametrize(
    "feature",
    [
        lambda image: image,
        lambda image: [tf.io.encode_png(image).numpy()],
        lambda image: [tf.io.serialize_tensor(image).numpy()],
    ],
    ids=["numbers", "encoded", "serialized"],
)
def test_examples_of_images(images, pictures, tmp_path, feature):
    path = tmp_path / "x.tfrecord"
    write_records(path, [example(inputs=feature(image)) for image in pictures])
    check(images, [str(path)], tmp_path / "out.csv", pictures)


def test_a_folder_of_images(images, pictures, tmp_path):
    folder = tmp_path / "pictures"
    (folder / "more").mkdir(parents=True)
    names = [f"{i:02d}.png" for i in range(9)] + [
        f"more/{i:02d}.png" for i in range(9, NUM_ROWS)
    ]
    for name, image in zip(names, pictures, strict=True):
        (folder / name).write_bytes(tf.io.encode_png(image).numpy())
    # Hidden files are not rows: notebooks keep copies in such folders.
    for name in (".ipynb_checkpoints/00-checkpoint.png", "more/.cache/a/b.png", ".png"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes((folder / "00.png").read_bytes())
    ids = [str(folder / name) for name in names]
    assert check(images, [str(folder)], tmp_path / "out.csv", pictures) == ids


def test_images_of_several_folders_have_ids_of_their_own(images, pictures, tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        for i, image in enumerate(pictures[:2]):
            path = tmp_path / folder / f"{i}.png"
            path.write_bytes(tf.io.encode_png(image).numpy())
    # One file of the second folder is named twice, and scored once.
    patterns = [f"{tmp_path}/b/1.png", f"{tmp_path}/a", f"{tmp_path}/b"]
    score(images, patterns, tmp_path / "out.csv")
    names = ("b/1.png", "a/0.png", "a/1.png", "b/0.png")
    assert read(tmp_path / "out.csv")["id"] == [f"{tmp_path}/{n}" for n in names]


def test_broken_images_keep_their_row(images, pictures, tmp_path):
    for i, image in enumerate(pictures[:6]):
        (tmp_path / f"{i}.png").write_bytes(tf.io.encode_png(image).numpy())
    (tmp_path / "0.png").write_bytes(b"no image")
    wide = tf.io.encode_png(np.zeros([4, 5, 1], "uint8")).numpy()
    (tmp_path / "4.png").write_bytes(wide)
    output = tmp_path / "out.csv"
    summary = score(images, [f"{tmp_path}/*.png"], output)
    broken = [f"{tmp_path}/0.png", f"{tmp_path}/4.png"]
    assert summary.unreadable == broken
    entropies = np.array(read(output)["predictive_entropy"], float)
    np.testing.assert_array_equal(
        np.isnan(entropies), [True, False, False, False, True, False]
    )


def test_parquet_is_read_as_one_table(vectors, x, tmp_path):
    pytest.importorskip("pyarrow", reason="Parquet needs the extra `score`")
    from pyarrow import parquet

    np.save(tmp_path / "x.npy", x)
    score(vectors, [f"{tmp_path}/x.npy"], tmp_path / "scores")
    table = parquet.read_table(tmp_path / "scores").to_pydict()
    assert table["id"] == [f"{tmp_path}/x.npy:{row}" for row in range(NUM_ROWS)]
    for name, values in expected(vectors, x).items():
        np.testing.assert_allclose(table[name], values, rtol=1e-4, atol=1e-6)


def test_a_model_of_several_inputs(tmp_path):
    first, second = keras.Input((2,), name="first"), keras.Input((1,), name="second")
    joined = keras.layers.concatenate([first, second])
    network = keras.Model([first, second], WeightNormDense(3)(joined))
    fed = [np.zeros([1, 2], "float32"), np.zeros([1, 1], "float32")]
    path = exported(network, tmp_path / "model", fed)
    a, b = np.float32([[1, 2], [3, 4]]), np.float32([[5], [6]])
    records = [example(first=r, second=s) for r, s in zip(a, b, strict=True)]
    write_records(tmp_path / "x.tfrecord", records)
    score(path, [f"{tmp_path}/x.tfrecord"], tmp_path / "out.csv")
    answers = scoring.ServedModel(path)({"first": a, "second": b})
    found = np.array(read(tmp_path / "out.csv")["mean_0"], float)
    np.testing.assert_allclose(found, answers["mean"][:, 0], rtol=1e-4)
    np.save(tmp_path / "x.npy", a)
    with pytest.raises(scoring.ScoringProblem, match="first.*second"):
        score(path, [f"{tmp_path}/x.npy"], tmp_path / "other.csv")


def test_a_file_that_is_larger_than_the_memory_in_use(vectors, tmp_path):
    """A sparse file of a gigabyte: only what is read is loaded."""
    resource = pytest.importorskip("resource", reason="memory is measured by it")
    shape = (1 << 26, 4)
    path = tmp_path / "x.npy"
    np.lib.format.open_memmap(path, "w+", np.float32, shape).flush()
    model = scoring.ServedModel(vectors)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    (source,) = scoring.inputs.open_sources([str(path)])
    source.check(model.input_specs)
    batch = next(source.batches(model.input_specs, shape[0] - 5, 100))
    assert batch.ids[-1] == f"{path}:{shape[0] - 1}"
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 100_000  # kilobytes, of 1,048,576


# -- killed and again -----------------------------------------------------------------


@pytest.mark.parametrize("kind", ["npy", "tfrecord"])
def test_a_killed_run_goes_on_and_scores_nothing_twice(vectors, x, tmp_path, kind):
    path = tmp_path / f"x.{kind}"
    if kind == "npy":
        np.save(path, x)
    else:
        write_records(path, [example(inputs=row) for row in x])
    output = tmp_path / "out.csv"

    def killed(done, total):
        if done > 12:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        score(vectors, [str(path)], output, on_progress=killed)
    (part,) = output.glob("part-*")
    written = part.stat().st_mtime_ns
    progress = []
    summary = score(
        vectors, [str(path)], output, on_progress=lambda *state: progress.append(state)
    )
    assert (summary.num_kept, summary.num_rows) == (1, NUM_ROWS - 8)
    assert progress[-1] == (NUM_ROWS - 8, NUM_ROWS - 8 if kind == "npy" else None)
    assert part.stat().st_mtime_ns == written
    assert read(output)["id"] == [f"{path}:{row}" for row in range(NUM_ROWS)]
    again = score(vectors, [str(path)], output)
    assert (again.num_kept, again.num_rows) == (3, 0)


def test_a_half_written_part_is_never_seen(vectors, x, tmp_path, monkeypatch):
    np.save(tmp_path / "x.npy", x)
    output = tmp_path / "out.csv"

    def fails(path, columns):
        path.write_text("id,me")
        raise OSError("No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("bhn_tf.scoring.parts._write_csv", fails)
        with pytest.raises(OSError, match="No space"):
            score(vectors, [f"{tmp_path}/x.npy"], output)
    assert sorted(os.listdir(output)) == [".lock", "_run.json"]
    check(vectors, [f"{tmp_path}/x.npy"], output, x)
