"""Writes and reads the text of `state.json`."""

import json
from pathlib import Path

from bhn_tf.active.evaluation import as_numbers
from bhn_tf.active.labels import DamagedFileError
from bhn_tf.active.progress import Progress, entry_of

_VERSION = 1


def state_text(progress: Progress) -> str:
    """The text to be written: everything but the labels."""
    state = {
        "version": _VERSION,
        "configuration": progress.configuration,
        "models": progress.models,
        "rounds": progress.rounds,
        "checksums_of_labels": progress.checksums_of_labels(),
    }
    return json.dumps(state, indent=1) + "\n"


def read_state(path: Path) -> Progress:
    """Returns the progress recorded in a file, without labels.

    Raises:
        FileNotFoundError: If there is no file.
        DamagedFileError: If the content is not what `state_text` writes.
        ValueError: If it is from another version of the library.
    """
    content = path.read_bytes()
    try:
        state = json.loads(content)
        version = state["version"]
        if version == _VERSION:
            return _parsed(state)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise DamagedFileError(f"{path} is damaged ({reason})") from error
    raise ValueError(
        f"{path} is of version {version}, and this library reads version {_VERSION}. "
        "Give another folder."
    )


def _parsed(state: dict) -> Progress:
    configuration = dict(state["configuration"])
    configuration["seed"] = int(configuration["seed"])
    progress = Progress(configuration, _rounds(state["rounds"]))
    # Missing in files of earlier versions.
    progress.trained_labels = [int(n) for n in state.get("checksums_of_labels", [])]
    if "models" in state:
        progress.models = {
            int(n): None if text is None else str(text)
            for n, text in state["models"].items()
        }
    elif progress.num_trained:
        # From a version without checksums: the latest model is the only one.
        progress.models = {progress.num_trained: None}
    return progress


def _rounds(rounds: list) -> list[dict]:
    found: list[dict] = []
    count = 0
    for entry in rounds:
        count += len(entry["ids"])
        expected = entry_of(len(found), entry["ids"], count)
        metrics = entry["metrics"]
        if metrics is not None:
            metrics = {str(name): as_numbers(value) for name, value in metrics.items()}
        expected["metrics"] = metrics
        if entry != expected:
            raise ValueError(f"round {len(found)} does not follow from those before")
        found.append(expected)
    return found


def check_configuration(folder: Path, there: dict, now: dict) -> None:
    """Raises `ValueError` if a folder belongs to another configuration."""
    different = [
        f"{name} is {_short(there.get(name))} there and {_short(value)} now"
        for name, value in now.items()
        if there.get(name) != value and not (name == "seed" and value is None)
    ]
    if different:
        raise ValueError(
            f"`directory` {folder} belongs to another configuration: "
            f"{'; '.join(different)}. Give another folder, or the arguments of "
            "that run to go on with it."
        )


def _short(value) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
