"""Texts of an experiment: the next character of Python's manual, and other texts.

Python carries the manual of its language (`pydoc_data`), which differs a little from
one version to the next. A row holds the characters before a character, which is its
label. Every paragraph is as a whole for training or for testing.
"""

import contextlib
import importlib
import inspect
import string

import numpy as np

from trainers.config import UsageProblem
from trainers.image_sets import evenly

#: What `--dataset` calls the text.
MANUAL = "python_manual"
#: The characters that are kept; every other one becomes a space.
CHARACTERS = " \n" + string.digits + string.ascii_letters + string.punctuation
#: Characters of a row.
LENGTH = 40
#: Texts that are none of the manual, by the names that `--anomalies` takes.
ANOMALIES = ("uniform", "backwards", "source_code")

# Characters from one training row to the next, so that eight rows read each.
_STRIDE = 5
_NUM_TEST = 10_000
_SMOKE_ROWS = {"train": 512, "test": 200}
_MODULES = ("argparse", "ast", "dataclasses", "decimal", "inspect", "tarfile", "typing")


def load_text_splits(is_smoke: bool) -> dict:
    """Rows of the manual, `{"train": (x, y), "test": (x, y)}`.

    Args:
        is_smoke: Whether to take only some rows.

    Returns:
        Places in `CHARACTERS` of rows [rows, `LENGTH`] and of labels [rows].
    """
    topics = importlib.import_module("pydoc_data.topics").topics
    paragraphs = "\n\n".join(topics[name] for name in sorted(topics)).split("\n\n")
    # Some topics repeat paragraphs of others.
    paragraphs = list(dict.fromkeys(paragraphs))
    texts = {
        "train": [text for k, text in enumerate(paragraphs) if k % 5],
        "test": paragraphs[::5],
    }
    splits = {}
    for name, of_split in texts.items():
        text = encoded("\n\n".join(of_split))
        rows = np.arange(len(text) - LENGTH)
        if name == "train":
            rows = rows[::_STRIDE]
        else:
            rows = rows[evenly(len(rows), _NUM_TEST)]
        if is_smoke:
            rows = rows[evenly(len(rows), _SMOKE_ROWS[name])]
        splits[name] = _rows_at(text, rows)
    return splits


def load_text_anomalies(names, num_rows: int) -> dict:
    """Rows that are none of the manual, by name.

    Args:
        names: Some of `ANOMALIES`.
        num_rows: Rows of each.

    Raises:
        UsageProblem: If a name is none of them.
    """
    unknown = sorted(set(names) - set(ANOMALIES))
    if unknown:
        raise UsageProblem(
            f"--anomalies={','.join(unknown)}: beside --dataset={MANUAL} stand "
            f"{', '.join(ANOMALIES)}."
        )
    return {name: _anomalies(name, num_rows) for name in names}


def encoded(text: str) -> np.ndarray:
    """The places of a text's characters in `CHARACTERS`, as int32."""
    places = {character: place for place, character in enumerate(CHARACTERS)}
    return np.array([places.get(character, 0) for character in text], "int32")


def _anomalies(name: str, num_rows: int) -> np.ndarray:
    if name == "uniform":
        random = np.random.default_rng(0)
        rows = random.integers(0, len(CHARACTERS), (num_rows, LENGTH))
        return rows.astype("int32")
    if name == "backwards":
        x, _ = load_text_splits(is_smoke=False)["test"]
        return x[evenly(len(x), num_rows), ::-1]
    text = encoded("".join(_source(module) for module in _MODULES))
    starts = evenly(len(text) - LENGTH, num_rows)
    return _rows_at(text, starts)[0]


def _source(module: str) -> str:
    with contextlib.suppress(OSError):
        return inspect.getsource(importlib.import_module(module))
    raise UsageProblem(
        f"--anomalies=source_code: this Python has no source of its module {module!r}."
    )


def _rows_at(text, starts):
    x = text[starts[:, np.newaxis] + np.arange(LENGTH)]
    return x, text[starts + LENGTH]
