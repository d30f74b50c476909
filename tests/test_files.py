"""Files are written whole or not at all; a folder serves one run at a time."""

import errno
import os
import signal
import subprocess
import sys
from concurrent import futures

import pytest

from bhn_tf import files


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "a.txt"
    files.write_text(path, "old")

    def fail_in_the_middle():
        with files.written_atomically(path) as temporary:
            temporary.write_text("ne")
            raise RuntimeError("in the middle")

    with pytest.raises(RuntimeError, match="in the middle"):
        fail_in_the_middle()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "a.txt"
    files.write_text(path, "old")

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        files.write_text(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_what_is_renamed_is_on_the_disk(tmp_path, monkeypatch):
    done = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda fd: (done.append("flush"), fsync(fd))[1])
    monkeypatch.setattr(os, "replace", lambda *a: (done.append("move"), replace(*a))[1])
    files.write_text(tmp_path / "a.txt", "new")
    assert done == ["flush", "move", "flush"]


def test_many_writers_of_one_file_do_not_meet(tmp_path):
    path = tmp_path / "a.txt"
    contents = [f"{number}" * 50_000 for number in range(8)]
    with futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda text: files.write_text(path, text), contents * 4))
    assert path.read_text() in contents
    assert list(tmp_path.iterdir()) == [path]


def test_temporary_files_of_one_process_differ_and_keep_the_ending(tmp_path):
    path = tmp_path / "a.keras"
    with files.written_atomically(path) as one, files.written_atomically(path) as other:
        assert one != other
        assert one.suffix == other.suffix == ".keras"
        assert files.unfinished_name(one) == "a.keras"
        one.touch(), other.touch()


def test_a_killed_run_leaves_no_lock_and_its_unfinished_files_are_found(tmp_path):
    code = (
        # Without the package around it, whose import takes seconds.
        "import pathlib, runpy, signal, sys\n"
        "files = runpy.run_path(sys.argv[1])\n"
        "folder = pathlib.Path(sys.argv[2])\n"
        "with files['locked'](folder), files['written_atomically'](folder/'a') as a:\n"
        "    a.touch(); print('ready', flush=True); signal.pause()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, files.__file__, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "ready\n"
    with (
        pytest.raises(files.FolderInUse, match="Another run works in"),
        files.locked(tmp_path),
    ):
        pass
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    with files.locked(tmp_path):
        assert len(list(tmp_path.iterdir())) == 2
        files.remove_unfinished(tmp_path)
        assert [path.name for path in tmp_path.iterdir()] == [".lock"]


@pytest.mark.parametrize("kind", ["without locks", "of another system"])
def test_a_folder_that_has_no_locks_is_used_with_a_warning(kind, tmp_path, monkeypatch):
    def flock(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    if kind == "without locks":
        monkeypatch.setattr(files.fcntl, "flock", flock)
    else:
        monkeypatch.setattr(files, "fcntl", None)
    told = []
    monkeypatch.setattr(files.logging, "warning", lambda *args: told.append(args[1]))
    with files.locked(tmp_path), files.locked(tmp_path):
        assert told == [tmp_path] * 2


def test_a_lock_that_is_only_looked_for_is_not_made(tmp_path):
    with pytest.raises(FileNotFoundError), files.locked(tmp_path, create=False):
        pass
    assert not list(tmp_path.iterdir())
