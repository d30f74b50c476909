"""The benchmarks measure what they claim, and RESULTS.md shows their output."""

import json
import sys
import types
from pathlib import Path

import keras
import numpy as np
import pytest

from benchmarks import (
    all_reduce,
    floors,
    networks,
    predictions,
    rows,
    timing,
    uci_rivals,
)

ROOT = Path(__file__).parents[2]


def test_ratios_are_taken_within_a_turn():
    seconds = {"slow": [2.0, 20.0, 4.0], "fast": [1.0, 10.0, 1.0]}
    row = rows.of_seconds("work", "fast", 2.5, None, seconds, ("slow", "fast"))
    assert row.measured == 2.0 and row.is_met
    assert timing.ratio(seconds, "slow", "fast") == 2.0


def test_functions_take_turns():
    calls = []
    functions = {name: lambda name=name: calls.append(name) for name in "ab"}
    seconds = timing.in_turns(functions, repeats=2, calls=2)
    assert calls == ["a", "b"] + ["a", "a", "b", "b"] * 2
    assert all(len(values) == 2 and min(values) >= 0 for values in seconds.values())


@pytest.mark.parametrize(
    ("kind", "all_products", "first"),
    [
        (networks.PERCEPTRON, 784 * 800 + 800 * 800 + 800 * 10, 784 * 800),
        (
            networks.CONVOLUTIONAL,
            30**2 * 27 * 64
            + 28**2 * 576 * 64
            + 12**2 * 576 * 128
            + 10**2 * 1152 * 128
            + 3200 * 512
            + 512 * 10,
            30**2 * 27 * 64,
        ),
    ],
)
def test_flops_of_the_networks(kind, all_products, first):
    network = networks.stack(kind, keras, keras.layers.Dense, keras.layers.Conv2D)
    assert floors.products(network) == (2 * all_products, 2 * first)


@pytest.mark.slow
def test_a_prediction_is_measured():
    mean, scores = predictions.measure(
        networks.PERCEPTRON, num_rows=20, batch_size=10, num_samples=2, repeats=1
    )
    assert mean.measured > 0 and scores.measured > 0
    assert 0.5 < mean.floor < 1
    assert "| `predict`, MLP, S = 2, 20 rows" in rows.as_table([mean, scores])


@pytest.mark.parametrize("name", ["table.md", "serving.md", "growth.md"])
def test_results_shows_the_tables_that_were_measured(name):
    table = (ROOT / "benchmarks" / "results" / name).read_text()
    assert table.strip() in (ROOT / "RESULTS.md").read_text()


def test_an_all_reduce_moves_four_bytes_a_weight():
    moved = all_reduce.bytes_of_hypernets(10)
    assert moved["MeanField()"] == 4 * 2 * 10
    assert moved["RealNVP(2)"] < moved["RealNVP(8)"]
    weights = 784 * 800 + 800 * 800 + 800 * 10 + 800 + 800 + 10
    assert all_reduce.bytes_of_primary() == 4 * weights


class _Regressor:
    """Stands in for NGBoost's: the first tree is the best."""

    best_val_loss_itr = 0

    def __init__(self, **options):
        pass

    def fit(self, x, y, *validation, **options):
        return self

    def pred_dist(self, x):
        params = {"loc": np.zeros(len(x)), "scale": np.ones(len(x))}
        return types.SimpleNamespace(params=params)


def test_rivals_of_uci_are_kept_and_a_set_that_is_missing_is_named(
    tmp_path, monkeypatch, capsys
):
    ngboost = types.ModuleType("ngboost")
    ngboost.NGBRegressor, ngboost.__version__ = _Regressor, "0"
    monkeypatch.setitem(sys.modules, "ngboost", ngboost)
    data = tmp_path / "yacht/data"
    data.mkdir(parents=True)
    np.savetxt(data / "data.txt", np.arange(30.0).reshape(10, 3))
    indices = {"features": [0, 1], "target": [2], "train_0": range(8), "test_0": [8, 9]}
    for name, numbers in indices.items():
        np.savetxt(data / f"index_{name}.txt", list(numbers))
    output = tmp_path / "new/rivals.json"

    def run(sets):
        flags = [f"--data_dir={tmp_path}", f"--sets={sets}", f"--output={output}"]
        monkeypatch.setattr(sys, "argv", ["uci_rivals", *flags])
        uci_rivals.main()

    with pytest.raises(SystemExit):
        run("yacht,bostn")
    assert "--sets=bostn: no" in capsys.readouterr().err and not output.exists()
    run("yacht")
    (row,) = json.loads(output.read_text())["rows"]
    assert row["trees"] == 1 and row["num_test"] == 2
    assert list(output.parent.iterdir()) == [output]
