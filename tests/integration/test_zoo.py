"""Networks that people bring: converted, trained, asked, saved, loaded, exported."""

import keras
import pytest

from benchmarks import zoo, zoo_networks

SMALL = [name for name, entry in zoo_networks.NETWORKS.items() if not entry.is_large]
LARGE = [name for name, entry in zoo_networks.NETWORKS.items() if entry.is_large]
#: No other test takes their kinds of layers through all these steps.
BY_DEFAULT = ["nested", "u_net", "hub_bert"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("zoo")


def visit(name, folder):
    if not zoo_networks.is_there(name):
        pytest.skip(f"needs {zoo_networks.NETWORKS[name].requires}")
    found = zoo.visit(name, folder, batch_size=4, repeats=0)
    keras.backend.clear_session()
    assert found.num_random > 0 and found.error <= zoo.LARGEST_ERROR
    assert found.hypernet != "MeanField"
    return found


@pytest.mark.slow
def test_some_in_one_process_and_loaded_in_another(folder):
    names = [name for name in BY_DEFAULT if zoo_networks.is_there(name)]
    for name in names:
        visit(name, folder)
    assert zoo.reloaded(folder) == sorted(names)


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in SMALL + LARGE if n not in BY_DEFAULT])
def test_the_others(name, tmp_path):
    found = visit(name, tmp_path)
    assert zoo.reloaded(tmp_path) == [name]
    if name in LARGE:
        # More than the scales of the last layer.
        assert found.num_random > 10_000


def test_the_table_says_what_was_found():
    line = zoo.Visit("net", 3, 200, 10, "RealNVP", 50, 0.1, 1e-7, 8, None)
    row = zoo.as_table([line]).splitlines()[-1]
    assert row.startswith("| net | 3 | 200 | 10 | RealNVP | 50 | 25.0% |")
