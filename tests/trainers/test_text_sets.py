"""Rows of Python's manual: a text, its continuation, and unrelated texts."""

import numpy as np
import pytest

from trainers import finetune
from trainers.text_sets import (
    ANOMALIES,
    CHARACTERS,
    LENGTH,
    encoded,
    load_text_anomalies,
    load_text_splits,
)


def text_of(row):
    return "".join(CHARACTERS[place] for place in row)


@pytest.fixture(scope="module")
def splits():
    return load_text_splits(is_smoke=False)


def test_a_label_is_the_character_that_follows(splits):
    from pydoc_data.topics import topics

    x, y = splits["train"]
    assert x.shape[1:] == (LENGTH,) and x.dtype == y.dtype == np.int32
    assert len(x) > 10_000 and x.min() >= 0 and x.max() < len(CHARACTERS)
    manual = text_of(encoded("\n\n".join(topics[name] for name in sorted(topics))))
    for row in (0, 1000):
        assert text_of(x[row]) + CHARACTERS[y[row]] in manual


def test_paragraphs_are_for_training_or_for_testing(splits):
    """Except for phrases that occur in several of them."""
    rows = {row.tobytes() for row in splits["train"][0]}
    assert len(splits["test"][0]) == 10_000
    shared = np.mean([row.tobytes() in rows for row in splits["test"][0]])
    assert shared < 0.1


def test_other_texts_are_no_rows_of_the_manual(splits):
    rows = {row.tobytes() for x, _ in splits.values() for row in x}
    found = load_text_anomalies(ANOMALIES, num_rows=50)
    assert list(found) == list(ANOMALIES)
    for x in found.values():
        assert x.shape == (50, LENGTH) and x.dtype == np.int32
        assert np.mean([row.tobytes() in rows for row in x]) < 0.1


def test_what_cannot_be_written_is_a_space():
    assert text_of(encoded("a\tÜ\n")) == "a  \n"


@pytest.mark.slow
def test_a_recurrent_network_is_fine_tuned(tmp_path):
    """As in the documents, with few rows."""
    results = finetune.run(
        finetune.Config(
            dataset="python_manual",
            network="gru",
            smoke=True,
            num_samples=4,
            output_dir=str(tmp_path / "run"),
        )
    )
    for found in results["methods"].values():
        assert set(found["auroc"]) == set(ANOMALIES)
    layers = ["embedding", "gru", "dense"]
    assert [name.rstrip("_0123456789") for name in results["posterior"]] == layers
