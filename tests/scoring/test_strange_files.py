"""Files from elsewhere are scored, cost their row, or are refused in a sentence."""

import io
import os
import pickle
import shutil
import zlib

import keras
import numpy as np
import pytest
import tensorflow as tf

from bhn_tf import scoring
from bhn_tf.baselines import Deterministic
from bhn_tf.image_headers import orientation_of, size_of
from bhn_tf.scoring import image_files
from tests.scoring.scored_files import check, example, read, score, write_records


def png(image):
    return tf.io.encode_png(image).numpy()


def bomb(side):
    """A small PNG of side x side black pixels."""

    def chunk(kind, data):
        crc = zlib.crc32(kind + data).to_bytes(4, "big")
        return len(data).to_bytes(4, "big") + kind + data + crc

    header = side.to_bytes(4, "big") * 2 + bytes([8, 0, 0, 0, 0])
    rows = zlib.compress(bytes((side + 1) * side), 1)
    parts = [(b"IHDR", header), (b"IDAT", rows), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*part) for part in parts)


# -- images that cost their row ------------------------------------------------------


def test_the_rows_beside_strange_files_are_scored(images, pictures, tmp_path):
    folder = tmp_path / "pictures"
    folder.mkdir()
    for name in ("a", "b", "i"):
        (folder / f"{name}.png").write_bytes(png(pictures[0]))
    (folder / "c.png").mkdir()
    (folder / "d.png").symlink_to("d.png")
    os.mkfifo(folder / "e.png")
    (folder / "f.png").write_bytes(bomb(2_000))
    (folder / "g.gif").write_bytes(b"GIF89a")
    (folder / "h.jpg").touch()
    odd = os.fsencode(folder) + b"/j\xff.png"
    with open(odd, "wb") as file:
        file.write(png(pictures[0]))
    broken = [f"{folder}/{name}" for name in ("c.png", "d.png", "e.png", "f.png")]
    broken += [f"{folder}/g.gif", f"{folder}/h.jpg"]

    def deletes(done, total):
        (folder / "i.png").unlink(missing_ok=True)

    output = tmp_path / "out.csv"
    summary = score(images, [str(folder)], output, on_progress=deletes)
    assert summary.unreadable == [*broken, f"{folder}/i.png"]
    table = read(output)
    named = [f"{folder}/a.png", f"{folder}/b.png", *summary.unreadable]
    assert table["id"] == [*named, f"{folder}/j\\xff.png"]
    values = np.array(table["mean_0"], float)
    np.testing.assert_array_equal(np.isnan(values), [0, 0, 1, 1, 1, 1, 1, 1, 1, 0])
    # They are in batches of different sizes, which may be rounded differently.
    np.testing.assert_allclose(values[0], values[-1], rtol=1e-6)


@pytest.mark.parametrize("mode", ["L", "RGB"])
@pytest.mark.parametrize("form", ["PNG", "JPEG", "BMP", "GIF"])
def test_grey_is_made_of_every_format(form, mode):
    pillow = pytest.importorskip("PIL.Image", reason="images are written by Pillow")
    file = io.BytesIO()
    pillow.new(mode, (5, 3), 60 if mode == "L" else (60, 60, 60)).save(file, form)
    spec = tf.TensorSpec([None, 3, 5, 1], tf.uint8)
    files = tf.data.Dataset.from_tensors(file.getvalue())
    (in_graph,) = files.map(lambda contents: image_files.decode(contents, spec))
    for grey in (image_files.decode(file.getvalue(), spec), in_graph):
        np.testing.assert_allclose(grey, np.full([3, 5, 1], 60), atol=1)


@pytest.mark.few(8)
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("orientation", [1, 2, 3, 4, 5, 6, 7, 8])
def test_a_photograph_is_scored_the_way_up_it_is_shown(orientation, channels):
    pillow = pytest.importorskip("PIL.Image", reason="images are written by Pillow")
    from PIL import ImageOps

    stored = np.zeros([16, 24, 3], "uint8")
    stored[:8, :8] = 250
    photograph = pillow.fromarray(stored)
    exif = photograph.getexif()
    exif[0x0112] = orientation
    file = io.BytesIO()
    photograph.save(file, "JPEG", exif=exif, quality=100)
    shown = np.asarray(ImageOps.exif_transpose(pillow.open(file)))
    height, width, _ = shown.shape
    assert size_of(file.getvalue())[:2] == (height, width)
    spec = tf.TensorSpec([None, height, width, channels], tf.uint8)
    files = tf.data.Dataset.from_tensors(file.getvalue())
    (in_graph,) = files.map(lambda contents: image_files.decode(contents, spec))
    for image in (image_files.decode(file.getvalue(), spec), in_graph):
        assert image.shape == (height, width, channels)
        distance = np.abs(image.numpy().astype(int) - shown[..., :channels])
        assert distance.max() <= 3


def test_a_damaged_exif_block_leaves_a_photograph_as_stored():
    pillow = pytest.importorskip("PIL.Image", reason="images are written by Pillow")
    exif = pillow.Exif()
    exif[0x0112] = 6
    file = io.BytesIO()
    pillow.new("L", (5, 3)).save(file, "JPEG", exif=exif)
    contents = file.getvalue()
    assert orientation_of(contents) == 6
    at = contents.index(b"Exif")
    for place in range(at + 6, at + 26):
        for byte in (b"\0", b"\xff"):
            damaged = contents[:place] + byte + contents[place + 1 :]
            assert 1 <= orientation_of(damaged) <= 8
    assert orientation_of(contents[: at + 20]) == 1


def test_a_table_of_colours_is_not_taken_for_grey():
    pillow = pytest.importorskip("PIL.Image", reason="images are written by Pillow")
    file = io.BytesIO()
    pillow.new("RGB", (5, 3), (200, 0, 0)).convert("P").save(file, "BMP")
    for channels in (1, 3):
        spec = tf.TensorSpec([None, 3, 5, channels], tf.uint8)
        with pytest.raises(ValueError, match="table of colours.*as PNG"):
            image_files.decode(file.getvalue(), spec)


@pytest.mark.parametrize("form", ["PNG", "JPEG", "BMP", "GIF"])
def test_a_header_tells_the_size_that_is_decoded(form):
    pillow = pytest.importorskip("PIL.Image", reason="images are written by Pillow")
    file = io.BytesIO()
    frames = [pillow.new("L", (5, 3), value) for value in (0, 255)]
    more = {"save_all": True, "append_images": frames[1:]} if form == "GIF" else {}
    frames[0].save(file, form, **more)
    size = size_of(file.getvalue())
    image = tf.io.decode_image(file.getvalue(), expand_animations=False)
    assert (size.height, size.width) == tuple(image.shape[:2])
    assert size.num_pixels == 15 * (2 if form == "GIF" else 1)
    for end in (4, 12, 20):
        with pytest.raises(ValueError, match="damaged"):
            size_of(file.getvalue()[:end])


def test_a_batch_of_broken_images_keeps_its_rows(tmp_path):
    """A network of images of any size may not take a single pixel."""
    network = [
        keras.layers.Conv2D(2, 3),
        keras.layers.GlobalAveragePooling2D(),
        keras.layers.Dense(3),
    ]
    network = keras.Sequential([keras.Input((None, None, 1)), *network])
    path = Deterministic(network).export(tmp_path / "model")
    (tmp_path / "a.png").write_bytes(png(np.zeros([5, 6, 1], "uint8")))
    (tmp_path / "b.png").write_bytes(b"broken")
    summary = score(path, [f"{tmp_path}/*.png"], tmp_path / "out.csv", batch_size=1)
    assert summary.unreadable == [f"{tmp_path}/b.png"]
    means = read(tmp_path / "out.csv")["mean_0"]
    assert means[0] != "nan" and means[1] == "nan"


def test_what_is_too_large_is_never_unpacked(photographs, pictures, tmp_path):
    """Half a gigabyte of colour floats each, from files of 150 kB."""
    resource = pytest.importorskip("resource", reason="memory is measured by it")
    large = bomb(6_000)
    assert len(large) < 200_000 and image_files.MAX_PIXELS < 6_000**2
    (tmp_path / "0.png").write_bytes(png(pictures[0]))
    for i in range(1, 4):
        (tmp_path / f"{i}.png").write_bytes(large)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    summary = score(photographs, [f"{tmp_path}/*.png"], tmp_path / "out.csv")
    assert len(summary.unreadable) == 3
    write_records(tmp_path / "x.tfrecord", [example(inputs=[large])])
    with pytest.raises(scoring.ScoringProblem, match="36000000 pixels"):
        score(photographs, [f"{tmp_path}/x.tfrecord"], tmp_path / "other.csv")
    good = example(inputs=[png(pictures[0])])
    write_records(tmp_path / "y.tfrecord", [good, example(inputs=[large])])
    with pytest.raises(scoring.ScoringProblem, match="36000000 pixels"):
        score(photographs, [f"{tmp_path}/y.tfrecord"], tmp_path / "third.csv")
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 100_000  # kilobytes


def test_images_of_any_size_are_not_gathered_beyond_memory(
    photographs, tmp_path, monkeypatch
):
    for i in range(4):
        (tmp_path / f"{i}.png").write_bytes(png(np.zeros([9, 9, 1], "uint8")))
    monkeypatch.setattr(image_files, "_MAX_BATCH_BYTES", 3_000)
    with pytest.raises(scoring.ScoringProblem, match="smaller batch size"):
        score(photographs, [f"{tmp_path}/*.png"], tmp_path / "out.csv")
    few = {"batch_size": 2, "rows_per_part": 2}
    score(photographs, [f"{tmp_path}/*.png"], tmp_path / "few.csv", **few)


# -- arrays and records that are refused ---------------------------------------------


class Trap:
    def __reduce__(self):
        return pytest.fail, ("a pickle was loaded",)


def as_npy(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def as_npz():
    file = io.BytesIO()
    np.savez(file, np.zeros([3, 4], "float32"))
    return file.getvalue()


ARRAYS = {
    "empty": b"",
    "text": b"1, 2, 3, 4\n",
    "npz": as_npz(),
    "pickle": pickle.dumps(Trap()),
    "objects": as_npy(np.array([[Trap()] * 4])),
    "cut": as_npy(np.zeros([3, 4], "float32"))[:-1],
    "cut header": as_npy(np.zeros([3, 4], "float32"))[:40],
    "no header": b"\x93NUMPY\x01\x00v\x00{'descr': ('<f4', \xe7}" + b" " * 100,
    "datetimes": as_npy(np.zeros([3, 4], "M8[s]")),
    "fields": as_npy(np.zeros([3, 4], [("a", "f4")])),
    "texts": as_npy(np.full([3, 4], "1.0")),
    "complex": as_npy(np.zeros([3, 4], "complex64")),
    "too large": as_npy(np.full([3, 4], 1e300)),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_what_is_no_array_of_numbers_is_refused(vectors, tmp_path, name):
    (tmp_path / "x.npy").write_bytes(ARRAYS[name])
    with pytest.raises(scoring.ScoringProblem, match=r"x\.npy"):
        score(vectors, [f"{tmp_path}/x.npy"], tmp_path / "out.csv")


def test_infinity_that_was_given_and_numbers_the_other_way_round(vectors, x, tmp_path):
    x[2, 1] = np.inf
    np.save(tmp_path / "br[1].npy", x.astype(">f8"))
    # A name that is also a pattern.
    ids = check(vectors, [f"{tmp_path}/br[1].npy"], tmp_path / "out.csv", x)
    assert ids[0] == f"{tmp_path}/br[1].npy:0"


def tensor_of(**fields):
    proto = tf.make_tensor_proto(np.zeros(4, "float32"))
    for name, value in fields.items():
        if name == "dims":
            proto.tensor_shape.dim[0].size = value
        elif name == "unknown_rank":
            proto.tensor_shape.unknown_rank = value
            del proto.tensor_shape.dim[:]
        else:
            setattr(proto, name, value)
    return proto.SerializeToString()


RECORDS = {
    "dtype 999": tensor_of(dtype=999),
    "dtype of a resource": tensor_of(dtype=20),
    "reference": tensor_of(dtype=101),
    "negative axis": tensor_of(dims=-7),
    "open axis": tensor_of(dims=-1),
    "huge axis": tensor_of(dims=1 << 60),
    "unknown rank": tensor_of(unknown_rank=True),
    "feature without values": tf.train.Example(
        features=tf.train.Features(feature={"inputs": tf.train.Feature()})
    ).SerializeToString(),
}


@pytest.mark.few(8)
@pytest.mark.parametrize("name", RECORDS)
@pytest.mark.parametrize("place", ["first", "later"])
def test_records_of_no_sense_are_refused(vectors, tmp_path, name, place):
    good = [tf.io.serialize_tensor(np.zeros(4, "float32")).numpy()]
    write_records(tmp_path / "x.tfrecord", good * (place == "later") + [RECORDS[name]])
    with pytest.raises(scoring.ScoringProblem, match=r"x\.tfrecord"):
        score(vectors, [f"{tmp_path}/x.tfrecord"], tmp_path / "out.csv")


def tensor_of_few_bytes(*shape):
    """One value that stands for all elements."""
    proto = tf.make_tensor_proto(np.zeros(1, "float32"))
    proto.ClearField("tensor_content")
    proto.float_val.append(0.0)
    del proto.tensor_shape.dim[:]
    for size in shape:
        proto.tensor_shape.dim.add(size=size)
    return proto.SerializeToString()


@pytest.mark.parametrize(
    ("model", "shape", "large"),
    [
        ("vectors", (4,), (4, 1 << 32)),
        ("photographs", (4, 4, 3), (1 << 16, 1 << 16, 3)),
    ],
)
def test_a_tensor_of_few_bytes_is_never_unpacked(
    model, shape, large, request, tmp_path
):
    good = tf.io.serialize_tensor(np.zeros(shape, "float32")).numpy()
    path = tmp_path / "x.tfrecord"
    # TensorFlow would ask for 16 GiB and more.
    write_records(path, [good, good, tensor_of_few_bytes(*large), good])
    # Without TensorFlow's words about its graph.
    told = r"row 2: the record cannot be read: A tensor of the shape .* Records have"
    with pytest.raises(scoring.ScoringProblem, match=told):
        score(request.getfixturevalue(model), [str(path)], tmp_path / "out.csv")


def test_a_broken_image_in_a_record_is_refused(images, tmp_path):
    broken = b"\x89PNG" + b"\xff" * 40
    write_records(tmp_path / "x.tfrecord", [example(inputs=[broken])])
    with pytest.raises(scoring.ScoringProblem, match=r"x\.tfrecord"):
        score(images, [f"{tmp_path}/x.tfrecord"], tmp_path / "out.csv")


# -- models --------------------------------------------------------------------------


def test_a_version_that_is_half_copied_is_passed_over(vectors, x, tmp_path):
    np.save(tmp_path / "x.npy", x)
    shutil.copytree(vectors, tmp_path / "model" / "1")
    (tmp_path / "model" / "2").mkdir()
    check(tmp_path / "model", [f"{tmp_path}/x.npy"], tmp_path / "out.csv", x)


@pytest.mark.parametrize(
    "name", ["saved_model.pb", "variables/variables.data-00000-of-00001"]
)
def test_a_model_that_is_cut_is_named(vectors, x, tmp_path, name):
    np.save(tmp_path / "x.npy", x)
    path = shutil.copytree(vectors, tmp_path / "1")
    (path / name).write_bytes((path / name).read_bytes()[:-9])
    with pytest.raises(scoring.ScoringProblem, match="copied as a whole"):
        score(path, [f"{tmp_path}/x.npy"], tmp_path / "out.csv")


# -- what happens in mid-run -----------------------------------------------------------


@pytest.mark.parametrize("happens", ["deleted", "cut"])
def test_an_array_that_is_deleted_or_cut_in_mid_run(vectors, x, tmp_path, happens):
    """Rows that are no longer there would end the process with a bus error."""
    path = tmp_path / "x.npy"
    # Larger than a page of memory.
    np.save(path, np.tile(x, [100, 1]))

    def change(done, total):
        if path.exists():
            path.unlink() if happens == "deleted" else os.truncate(path, 200)

    arguments = (vectors, [str(path)], tmp_path / "out.csv")
    sizes = {"batch_size": 400, "rows_per_part": 400}
    if happens == "deleted":
        summary = score(*arguments, on_progress=change, **sizes)
        assert summary.num_rows == 2_300
    else:
        with pytest.raises(scoring.ScoringProblem, match="x.npy was cut while"):
            score(*arguments, on_progress=change, **sizes)
