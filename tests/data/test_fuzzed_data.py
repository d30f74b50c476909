"""Any folder of data gives the right arrays or a documented error."""

import os
import shutil
import warnings

import hypothesis
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import strategies

from bhn_tf import data
from tests.fuzzing import any_bytes, few, outcome

IMAGE = np.random.default_rng(0).integers(0, 256, (4, 5, 1), "uint8")
ENCODED = [encode(IMAGE).numpy() for encode in (tf.io.encode_png, tf.io.encode_jpeg)]


def load(name, folder=None):
    with warnings.catch_warnings():
        # About files that are left out.
        warnings.simplefilter("ignore", UserWarning)
        found, problem = outcome(
            lambda: data.load(name, data_dir=folder), ValueError, FileNotFoundError
        )
    assert problem is None or 0 < len(problem) < 4_000
    for x, y in (found or {}).values():
        assert (x.dtype, y.dtype) == (np.float32, np.int32)
        assert len(x) == len(y) > 0 and x.min() >= 0 and x.max() <= 1


@few(100)
@hypothesis.given(any_bytes(*ENCODED))
def test_images_of_a_class(tmp_path_factory, contents):
    folder = tmp_path_factory.getbasetemp() / "fuzzed-classes"
    (folder / "A").mkdir(parents=True, exist_ok=True)
    (folder / "A" / "a.png").write_bytes(ENCODED[0])
    (folder / "A" / "b.png").write_bytes(contents)
    load(str(folder))


def test_what_is_no_image_file_is_left_out(tmp_path):
    (tmp_path / "A" / "b.png").mkdir(parents=True)
    (tmp_path / "A" / "c.png").symlink_to("c.png")
    os.mkfifo(tmp_path / "A" / "d.png")
    # A small file of 20,000 x 20,000 pixels; its header is enough.
    header = (20_000).to_bytes(4, "big") * 2
    (tmp_path / "A" / "e.png").write_bytes(ENCODED[0][:16] + header + ENCODED[0][24:])
    (tmp_path / "A" / "a.png").write_bytes(ENCODED[0])
    with pytest.warns(UserWarning, match="4 files .* cannot be read"):
        x, _ = data.load(str(tmp_path), "all")
    assert len(x) == 1


@few(25)
@hypothesis.given(draws=strategies.data())
def test_prepared_sets(tiny_root, tmp_path_factory, draws):
    """Its two descriptions in JSON, and its records."""
    root = tmp_path_factory.getbasetemp() / "fuzzed-set"
    shutil.rmtree(root, ignore_errors=True)
    shutil.copytree(tiny_root, root)
    files = sorted(path for path in root.rglob("*") if path.is_file())
    path = draws.draw(strategies.sampled_from(files))
    path.write_bytes(draws.draw(any_bytes(path.read_bytes())))
    load("tiny", root)


@few(60)
@hypothesis.given(strategies.text(max_size=20))
def test_names_of_sets(tmp_path_factory, name):
    load(name, tmp_path_factory.getbasetemp() / "nothing")


@few(40)
@hypothesis.given(
    strategies.lists(strategies.integers(-1, 5), max_size=5),
    strategies.sampled_from(["uint8", "float32", "float64", "int64", "bool", "U3"]),
    strategies.tuples(*[strategies.integers(-1, 4)] * 3),
)
def test_images_of_another_shape(shape, dtype, wanted):
    x = np.zeros([max(size, 0) for size in shape], dtype)
    found, problem = outcome(lambda: data.as_images(x, *wanted), ValueError)
    if problem is None:
        assert found.shape == (len(x), *wanted) and found.dtype == np.float32
