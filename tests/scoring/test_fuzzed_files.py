"""Any file to be scored gives the right rows, or a `ScoringProblem`."""

import io
import json

import hypothesis
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import strategies

from bhn_tf import image_headers, scoring
from bhn_tf.scoring.inputs import open_sources
from bhn_tf.scoring.parts import Parts
from tests.fuzzing import any_bytes, few, outcome
from tests.scoring.scored_files import example, write_records

VECTORS = {"inputs": tf.TensorSpec([None, 4], tf.float32, name="inputs")}
IMAGES = {"inputs": tf.TensorSpec([None, 4, 5, 3], tf.uint8, name="inputs")}
ANY_SIZE = {"inputs": tf.TensorSpec([None, None, None, 1], tf.float32, name="inputs")}


def npy(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def encoded(pixels):
    pillow = pytest.importorskip("PIL.Image", reason="images are written by Pillow")
    found = []
    for form in ("PNG", "JPEG", "BMP", "GIF"):
        file = io.BytesIO()
        pillow.fromarray(pixels).save(file, form)
        found.append(file.getvalue())
    return found


PIXELS = np.random.default_rng(0).integers(0, 256, (4, 5, 3), "uint8")
ENCODED = encoded(PIXELS)
ROW = np.arange(4, dtype="float32")
RECORDS = [
    example(inputs=ROW),
    example(inputs=ROW, id=[b"a"]),
    example(inputs=[tf.io.serialize_tensor(ROW).numpy()]),
    tf.io.serialize_tensor(ROW).numpy(),
]
PICTURES = [example(inputs=[image]) for image in ENCODED]


def read(path, specs):
    """The rows of a file as scoring reads them; none if it is refused."""

    def rows():
        (source,) = open_sources([str(path)])
        source.check(specs)
        return list(source.batches(specs, 0, 3))

    batches, problem = outcome(rows, scoring.ScoringProblem)
    if problem is not None:
        assert str(path) in problem and len(problem) < 1_000
        return []
    spec = specs["inputs"]
    for batch in batches:
        rows = batch.inputs["inputs"]
        assert rows.dtype == spec.dtype.as_numpy_dtype
        assert spec.shape.is_compatible_with(rows.shape)
        assert len(rows) == len(batch.ids) > 0
        assert all(isinstance(name, str) for name in batch.ids)
    return batches


@few(100)
@hypothesis.given(any_bytes(npy(np.ones([5, 4], "float32")), npy(np.ones([2, 4]))))
def test_arrays(tmp_path_factory, contents):
    path = tmp_path_factory.getbasetemp() / "fuzzed.npy"
    path.write_bytes(contents)
    read(path, VECTORS)


@few(60)
@hypothesis.given(strategies.lists(any_bytes(*RECORDS), min_size=1, max_size=3))
def test_records_that_are_whole_and_mean_nothing(tmp_path_factory, records):
    path = tmp_path_factory.getbasetemp() / "fuzzed.tfrecord"
    write_records(path, records)
    read(path, VECTORS)


@pytest.mark.slow
@few(40)
@hypothesis.given(any_bytes(*PICTURES), strategies.sampled_from([IMAGES, ANY_SIZE]))
def test_records_of_images(tmp_path_factory, record, specs):
    path = tmp_path_factory.getbasetemp() / "fuzzed.tfrecord"
    write_records(path, [PICTURES[0], record])
    read(path, specs)


@pytest.fixture(scope="module")
def record_files(tmp_path_factory):
    """The bytes of a file of records, plain and compressed."""
    folder = tmp_path_factory.mktemp("whole")
    write_records(folder / "plain", RECORDS[:2])
    write_records(folder / "gz", RECORDS[:2], "GZIP")
    return (folder / "plain").read_bytes(), (folder / "gz").read_bytes()


@few(40)
@hypothesis.given(data=strategies.data(), ending=strategies.sampled_from(["", ".gz"]))
def test_files_of_records_that_are_damaged(
    record_files, tmp_path_factory, data, ending
):
    path = tmp_path_factory.getbasetemp() / f"fuzzed.tfrecord{ending}"
    path.write_bytes(data.draw(any_bytes(*record_files)))
    read(path, VECTORS)


@few(100)
@hypothesis.given(any_bytes(*ENCODED), strategies.sampled_from([IMAGES, ANY_SIZE]))
def test_images(tmp_path_factory, contents, specs):
    """A broken record costs only its own row."""
    folder = tmp_path_factory.getbasetemp() / "fuzzed-images"
    folder.mkdir(exist_ok=True)
    (folder / "a.png").write_bytes(ENCODED[0])
    (folder / "b.png").write_bytes(contents)
    assert all(batch.unreadable in ((), (1,)) for batch in read(folder, specs))


@few(200)
@hypothesis.given(any_bytes(*ENCODED))
def test_headers(contents):
    size, problem = outcome(lambda: image_headers.size_of(contents), ValueError)
    assert problem or size.num_pixels >= 0


@few(100)
@hypothesis.given(any_bytes(json.dumps({"model": 1, "input": "a"}).encode()))
def test_the_proof_of_an_output(tmp_path_factory, contents):
    folder = tmp_path_factory.getbasetemp() / "fuzzed.csv"
    folder.mkdir(exist_ok=True)
    (folder / "_run.json").write_bytes(contents)
    run = {"model": 1, "input": "a"}
    _, problem = outcome(lambda: Parts(folder, "csv", run), scoring.ScoringProblem)
    assert problem is None or "_run.json" in problem


@few(50)
@hypothesis.given(strategies.text(max_size=20))
def test_names_of_files(pattern):
    outcome(lambda: open_sources([pattern]), scoring.ScoringProblem)
