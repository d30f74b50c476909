"""Full disks, lost folders, clocks set back: a clear end, and the last state kept."""

import contextlib
import dataclasses
import os
import shutil
import subprocess
import time

import keras
import numpy as np
import pytest

from tests.trainers.killed import Tiny, without_seconds
from trainers import experiment, training
from trainers.config import CommonConfig, UsageProblem
from trainers.run_folder import RunFolder

EPOCHS = 3


class At(keras.callbacks.Callback):
    """Something that happens at the end of the second epoch."""

    def __init__(self, happens):
        super().__init__()
        self._happens = happens

    def on_epoch_begin(self, epoch, logs=None):
        if epoch == 1:
            self._happens()


@dataclasses.dataclass
class Unlucky(Tiny):
    """The tiny experiment, and what happens to it."""

    happens: object = None

    def compute(self, folder, data):
        usual = training._Progress
        if self.happens is None:
            return super().compute(folder, data)
        happening = At(self.happens)

        class Progress(usual):
            def on_epoch_begin(self, epoch, logs=None):
                happening.on_epoch_begin(epoch)
                super().on_epoch_begin(epoch, logs)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(training, "_Progress", Progress)
            return super().compute(folder, data)


@pytest.fixture(autouse=True, scope="module")
def _every_epoch_is_kept():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "_SECONDS_BETWEEN_CHECKPOINTS", 0.0)
        yield


def run(folder, happens=None, **flags):
    config = CommonConfig(output_dir=str(folder), batch_size=8, epochs=EPOCHS, **flags)
    return without_seconds(experiment.run(Unlucky(config, happens)))["loss"]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The folder of a run without an incident, and its results."""
    folder = tmp_path_factory.mktemp("lucky") / "run"
    return folder, run(folder)


@pytest.fixture
def expected(finished):
    """The results of a run without an incident."""
    return finished[1]


@pytest.fixture
def unfinished(finished, tmp_path):
    """A copy of its folder, as of a run that was killed before it had results."""
    folder = shutil.copytree(finished[0], tmp_path / "copy")
    (folder / "results.json").unlink()
    return folder


def checkpoints(folder):
    return sorted(path.name for path in (folder / "checkpoints").iterdir())


@pytest.fixture
def small_disk(tmp_path):
    """A disk of its own, which a few checkpoints fill."""
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)]
    if shutil.which("mount") is None or subprocess.run(command).returncode:
        pytest.skip("Only who may mount a file system can make a small one.")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


def fill(disk):
    with open(disk / "filler", "wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))


def test_a_disk_that_is_full_from_the_start(small_disk, expected):
    fill(small_disk)
    with pytest.raises(UsageProblem, match="No space left on device"):
        run(small_disk / "run")
    (small_disk / "filler").unlink()
    assert run(small_disk / "run") == expected


def test_a_disk_that_fills_up(small_disk, expected):
    with pytest.raises(UsageProblem, match="No space left on device.*goes on when"):
        run(small_disk / "run", lambda: fill(small_disk))
    # The last good one, and no half-written files.
    assert checkpoints(small_disk / "run") == ["bhn-00001.keras"]
    (small_disk / "filler").unlink()
    assert run(small_disk / "run") == expected


@pytest.mark.slow
def test_files_that_may_not_grow(tmp_path, expected):
    """Like a quota, if no disk can be mounted."""
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, hard))

    try:
        with pytest.raises(UsageProblem, match="goes on when this is mended"):
            run(tmp_path / "run", limit)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert checkpoints(tmp_path / "run") == ["bhn-00001.keras"]
    assert run(tmp_path / "run") == expected


@pytest.mark.slow
def test_a_folder_that_is_deleted_in_mid_run(tmp_path, expected):
    folder = tmp_path / "run"
    with pytest.raises(UsageProblem, match="No such file or directory"):
        run(folder, lambda: shutil.rmtree(folder))
    assert run(folder) == expected


def stop():
    raise KeyboardInterrupt


def test_a_folder_that_can_only_be_read(small_disk, expected):
    def remount(mode):
        command = ["mount", "-o", f"remount,{mode}", str(small_disk)]
        subprocess.run(command, check=True)

    with pytest.raises(KeyboardInterrupt):
        run(small_disk / "run", stop)
    remount("ro")
    for name in ("run", "other"):
        with pytest.raises(UsageProblem, match="cannot be written to"):
            run(small_disk / name)
    remount("rw")
    assert run(small_disk / "run") == expected
    remount("ro")
    # A finished run is shown.
    assert run(small_disk / "run") == expected


@pytest.mark.slow
@pytest.mark.parametrize("error", [MemoryError, "tensorflow"])
def test_memory_that_is_used_up(tmp_path, expected, error):
    def happens():
        if error is MemoryError:
            np.empty(2**62, "uint8")
        import tensorflow as tf

        raise tf.errors.ResourceExhaustedError(None, None, "OOM when allocating")

    with pytest.raises(UsageProblem, match="memory is used up.*--batch_size"):
        run(tmp_path / "run", happens)
    assert checkpoints(tmp_path / "run") == ["bhn-00001.keras"]
    assert run(tmp_path / "run") == expected


@pytest.mark.slow
def test_a_clock_that_is_set_back(tmp_path, expected, monkeypatch):
    """Names tell which is newest, and times come from a monotonic clock."""

    def set_back():
        monkeypatch.setattr(time, "time", lambda: 1e9)

    folder = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        run(folder, stop)
    for path in folder.rglob("*"):
        os.utime(path, (2e9, 2e9))
    assert run(folder, set_back) == expected
    with RunFolder(
        CommonConfig(output_dir=str(folder), batch_size=8, epochs=EPOCHS), "tiny"
    ) as again:
        assert again.checkpoints.load("bhn")[0] == EPOCHS
        assert all(entry["seconds"] >= 0 for entry in again.epochs.read("bhn"))


# -- files of state that hold something else -------------------------------------------


@pytest.mark.few(4)
@pytest.mark.parametrize("kept", [3, 2])
@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda lines: None, "epoch 1 of bhn is missing.*delete all checkpoints"),
        (lambda lines: [], "epoch 1 of bhn is missing"),
        (lambda lines: lines[1:], "epoch 1 of bhn is missing"),
        (lambda lines: lines[:1], "epoch 2 of bhn is missing"),
        (lambda lines: ['{"method": "bhn", "epoch": 1}'], "epoch 1 .*or has no `sec"),
        (lambda lines: [lines[0].replace('": 1,', '": "1",')], "line 1 is no epoch"),
        (lambda lines: ['{"method": 1, "epoch": 1}'], "line 1 is no epoch"),
        (lambda lines: ["[" * 100_000], "line 1 is no epoch"),
    ],
)
def test_a_log_without_the_epochs_of_a_checkpoint_is_named(
    damage, message, kept, unfinished
):
    log = unfinished / "metrics.jsonl"
    lines = damage(log.read_text().splitlines())
    if kept < EPOCHS:
        (unfinished / "checkpoints" / f"bhn-{EPOCHS:05d}.keras").unlink()
    if lines is None:
        log.unlink()
    else:
        log.write_text("".join(f"{line}\n" for line in lines))
    with pytest.raises(UsageProblem, match=f"metrics.jsonl: {message}"):
        run(unfinished)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        *[("results.json", text) for text in ("{}", '{"accuracy": 1}', "[]")],
        *[("config.json", f'{{"trainer": "tiny", "data": {v}}}') for v in (5, "[1]")],
        *[(".files.json", text) for text in ("[1, null]", "{}", "null")],
        *[
            (name, "[" * 100_000)
            for name in ("results.json", "config.json", ".files.json")
        ],
    ],
)
def test_a_file_of_other_content_is_named(name, content, unfinished):
    (unfinished / name).write_text(content)
    with pytest.raises(UsageProblem, match=f"{name} (holds something|cannot be read)"):
        run(unfinished)
