"""Which files of a folder a run has written: it may delete no others."""

import contextlib
import fnmatch
import os
from collections.abc import Iterable
from glob import escape
from pathlib import Path

from bhn_tf.files import unfinished_name
from trainers.config import UsageProblem
from trainers.state_files import read_json, write_json

_LIST = ".files.json"


class OwnFiles:
    """Keeps, in `.files.json`, the names of the files that a run writes to its folder.

    A name is put down before its file is written, so that the files of a killed run are
    known, too. Patterns of `fnmatch` stand for what changes, such as an epoch.

    Args:
        folder: The folder of the run.
        always: Names of files that every run has.
    """

    def __init__(self, folder: Path, always: Iterable[str]):
        self._folder = folder
        self._always = (*always, _LIST)

    def claim(self, *patterns: str) -> None:
        """Puts down names of files that are going to be written.

        Args:
            *patterns: Names relative to the folder.

        Raises:
            UsageProblem: If there is a file of that name that the run did not write.
        """
        new = [pattern for pattern in patterns if pattern not in self._patterns()]
        for pattern in new:
            for path in self._folder.glob(pattern):
                if not self.owns(path):
                    raise UsageProblem(
                        f"{path} was not written by this run, which needs the name. "
                        "Move it, and start the run again: it goes on."
                    )
        self._add(new)

    def adopt(self, folder: Path) -> None:
        """Puts down all files of a folder that has just been written as a whole."""
        files = [path for path in Path(folder).rglob("*") if path.is_file()]
        self._add(escape(path.relative_to(self._folder).as_posix()) for path in files)

    def owns(self, path: Path) -> bool:
        """Whether a file is there that the run has written, whole or in part."""
        relative = path.relative_to(self._folder)
        name = relative.with_name(unfinished_name(path) or path.name).as_posix()
        # A `*` of fnmatch matches slashes, too, so the depth has to be the same.
        return path.is_file() and any(
            fnmatch.fnmatchcase(name, pattern) and name.count("/") == pattern.count("/")
            for pattern in self._patterns()
        )

    def are_in(self, folder: str) -> bool:
        """Whether that sub-folder holds a file of the run."""
        return any(map(self.owns, (self._folder / folder).rglob("*")))

    def remove(self) -> list[Path]:
        """Removes the run's files, and sub-folders that are empty without them.

        Returns:
            The files that the run did not write; they stay.

        Raises:
            UsageProblem: If one of the run's files is, or lies behind, a symbolic link;
                nothing has been removed then.
        """
        own = [path for path in _files_in(self._folder) if self.owns(path)]
        # The results go first: after a kill, the run does not look finished.
        own.sort(key=lambda path: path.name not in self._always)
        links = [
            path
            for pattern in self._patterns()
            for path in _on_the_way(self._folder, pattern)
            if path.is_symlink()
        ]
        if links:
            raise UsageProblem(
                f"{links[0]} is a symbolic link, which this run did not make: nothing "
                "has been deleted. Remove the link, or give another --output_dir."
            )
        # These say whose folder it is, also after a kill.
        kept = [self._folder / _LIST, self._folder / "config.json"]
        for path in own:
            if path not in kept:
                path.unlink()
        for name in {path.relative_to(self._folder).parts[0] for path in own}:
            _remove_empty(self._folder / name)
        write_json(self._folder / _LIST, [])
        return [p for p in _files_in(self._folder) if p not in kept and p not in own]

    def _add(self, patterns: Iterable[str]) -> None:
        listed = self._listed()
        new = [pattern for pattern in patterns if pattern not in listed]
        if new:
            write_json(self._folder / _LIST, listed + new)

    def _listed(self) -> list[str]:
        path = self._folder / _LIST
        if not path.exists():
            return []
        return read_json(
            path,
            list,
            "It says which files are the run's. Give another --output_dir.",
            lambda names: all(isinstance(name, str) for name in names),
        )

    def _patterns(self) -> list[str]:
        return [*self._always, *self._listed()]


def _files_in(folder: Path) -> list[Path]:
    """All files and links, in order, without following links."""
    return sorted(
        Path(root) / name
        for root, folders, files in os.walk(folder)
        for name in [*files, *(f for f in folders if (Path(root) / f).is_symlink())]
    )


def _on_the_way(folder: Path, pattern: str) -> Iterable[Path]:
    """The files that a name stands for, and the sub-folders that lead there."""
    for depth in range(1, pattern.count("/") + 2):
        yield from folder.glob("/".join(pattern.split("/")[:depth]))


def _remove_empty(folder: Path) -> None:
    """Removes folders without files, such as the `assets` of a SavedModel."""
    for root, _, _ in os.walk(folder, topdown=False):
        with contextlib.suppress(OSError):
            os.rmdir(root)
