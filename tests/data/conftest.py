import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def shared_data():
    """Real data, prepared beside the repository if at all."""
    folder = ROOT.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"needs the prepared data sets in {folder}")
    return folder


@pytest.fixture(scope="session")
def prepare(tmp_path_factory):
    """Writes a set as TensorFlow Datasets would: `prepare(name, features, splits)`."""
    tensorflow_datasets = pytest.importorskip("tensorflow_datasets")

    def write(name, features, splits):
        root = tmp_path_factory.mktemp("prepared")
        tensorflow_datasets.dataset_builders.store_as_tfds_dataset(
            name=name,
            version="1.0.0",
            data_dir=root,
            disable_shuffling=True,
            features=tensorflow_datasets.features.FeaturesDict(features),
            split_datasets={
                split: tf.data.Dataset.from_tensor_slices(columns)
                for split, columns in splits.items()
            },
        )
        return root

    return write


@pytest.fixture(scope="session")
def tiny_arrays():
    generator = np.random.default_rng(0)
    images = generator.integers(0, 256, size=(60, 8, 8, 1), dtype=np.uint8)
    images[0, 0, 0], images[0, 0, 1] = 0, 255
    return images, np.arange(60, dtype=np.int64) % 3


@pytest.fixture(scope="session")
def tiny_root(prepare, tiny_arrays):
    """A data folder with the set "tiny": 50 rows "train", 10 rows "test"."""
    features = pytest.importorskip("tensorflow_datasets").features
    images, labels = tiny_arrays
    return prepare(
        "tiny",
        {
            "image": features.Image(shape=(8, 8, 1)),
            "label": features.ClassLabel(num_classes=3),
        },
        {
            "train": {"image": images[:50], "label": labels[:50]},
            "test": {"image": images[50:], "label": labels[50:]},
        },
    )


@pytest.fixture(scope="session")
def run_offline():
    """Runs code in a process without network: `run_offline(code) -> process, seconds`.

    The seconds are those of the code, without the import of TensorFlow before it.
    Proxies are a closed port; whatever asks for the network fails instead of waiting.
    """
    names = ("http_proxy", "https_proxy", "all_proxy")
    closed = {n: "http://127.0.0.1:9" for n in (*names, *map(str.upper, names))}
    left_out = ("no_proxy", "tfds_data_dir")
    inherited = {k: v for k, v in os.environ.items() if k.lower() not in left_out}
    path = os.pathsep.join(p for p in (str(ROOT), os.environ.get("PYTHONPATH")) if p)
    environment = {**inherited, **closed, "PYTHONPATH": path}
    preamble = """
import socket
def refuse(*args, **kwargs):
    raise SystemExit("asked for the network")
socket.socket.connect = socket.getaddrinfo = refuse
import atexit, time
from bhn_tf import data
start = time.monotonic()
atexit.register(lambda: print("seconds:", time.monotonic() - start))
"""

    def run(code):
        process = subprocess.run(
            [sys.executable, "-c", preamble + code],
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
        )
        process.stdout, _, seconds = process.stdout.partition("seconds:")
        return process, float(seconds or "nan")

    return run
