"""The structure of the package: imports, classes, private names."""

import ast
import importlib
import inspect
import pathlib
import pkgutil
import re
import subprocess
import sys

import pytest

import bhn_tf

ROOT = pathlib.Path(bhn_tf.__file__).parent

#: From the bottom up: a package imports only from lines above its own, or from its own
#: line if that makes no circle.
ORDER = [
    {"arguments", "environment", "files", "image_folders", "image_headers"}
    | {"keras_adapter", "random", "tables", "tensorflow_adapter"}
    | {"two_classes", "user_warnings", "version"},
    {"norms", "flows", "uncertainty"},
    {"hypernets", "priors", "layers", "likelihoods"},
    {"metrics"},
    {"networks", "data_feeds"},
    {"serving"},
    {"models"},
    {"conversion"},
    {"baselines", "callbacks", "attacks", "active", "hamiltonian", "correlation"}
    | {"conformal", "divergence", "plots", "posterior_tensorboard", "data", "sklearn"},
    {"scoring", "beam", "diagnosis"},
    {"demo"},
]
RANKS = {name: rank for rank, names in enumerate(ORDER) for name in names}


def part_of(path) -> str:
    """The package, or module, right under `bhn_tf` that a file belongs to."""
    return path.relative_to(ROOT).with_suffix("").parts[0]


def imports_of(path) -> set[str]:
    """Parts of `bhn_tf` that a file imports, inside functions too."""
    modules = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            modules |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {module.split(".")[1] for module in modules if module.startswith("bhn_tf.")}


IMPORTS = {
    path: imports_of(path)
    for path in sorted(ROOT.rglob("*.py"))
    if path != ROOT / "__init__.py"
}


def test_every_part_has_its_place():
    assert {part_of(path) for path in IMPORTS} == set(RANKS)


def test_no_import_runs_upwards():
    upwards = [
        f"{path.relative_to(ROOT)} imports {imported}"
        for path, names in IMPORTS.items()
        for imported in names
        if RANKS[imported] > RANKS[part_of(path)]
    ]
    assert not upwards


def test_no_circle_of_packages():
    edges = {name: set() for name in RANKS}
    for path, names in IMPORTS.items():
        edges[part_of(path)] |= names - {part_of(path)}
    while edges:
        free = {name for name, needed in edges.items() if not needed & edges.keys()}
        assert free, f"a circle among {sorted(edges)}"
        edges = {name: edges[name] for name in edges.keys() - free}


def classes():
    """Every class that the package defines."""
    found = {}
    for module in pkgutil.walk_packages(bhn_tf.__path__, "bhn_tf."):
        try:
            members = vars(importlib.import_module(module.name))
        except ImportError:  # An extra that is not installed.
            continue
        for member in members.values():
            if inspect.isclass(member) and member.__module__ == module.name:
                found[f"{module.name}.{member.__qualname__}"] = member
    return found


def test_no_class_has_more_than_four_of_ours_behind_it():
    long = {
        name: [c.__name__ for c in kind.__mro__ if c.__module__.startswith("bhn_tf")]
        for name, kind in classes().items()
    }
    assert len(long) > 50
    assert {name: mro for name, mro in long.items() if len(mro) > 4} == {}


def test_private_names_stay_in_their_class():
    """Private names of Keras and TensorFlow are in one place each, with reasons."""
    pytest.importorskip("ruff")
    command = [sys.executable, "-m", "ruff", "check", "--select", "SLF001", "--quiet"]
    found = subprocess.run(
        [*command, "--output-format", "concise", ROOT], capture_output=True, text=True
    ).stdout
    adapters = re.compile(r"bhn_tf/(keras_adapter/|tensorflow_adapter\.py)")
    others = [line for line in found.splitlines() if not adapters.search(line)]
    assert not others
