"""The benchmarks measure what they claim, and RESULTS.md shows their output."""

from pathlib import Path

import keras
import pytest

from benchmarks import all_reduce, floors, networks, predictions, rows, timing

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
