"""Mutation testing: `mutants.py RESULTS [each] [part ...]`, with cosmic-ray installed.

In each part, `each` places (30 by default) are drawn, always the same ones. At each of
them one of cosmic-ray's faults is put in, in a fork of this process, which has only
imported TensorFlow. No file is changed. The tests that guard the module run until the
first of them fails: the mutant is killed.

RESULTS has one line of JSON per mutant. Mutants that are in it are not run again:
delete lines, such as those of survivors, to try new tests on them.
"""

import collections
import difflib
import importlib.abc
import importlib.machinery
import json
import os
import pathlib
import random
import signal
import sys
import tempfile
import time

import cosmic_ray.plugins
import keras  # what the forks do not have to import again
import matplotlib.pyplot  # noqa: F401
import pytest
import scipy.stats  # noqa: F401
import sklearn.metrics  # noqa: F401
import tensorflow as tf  # noqa: F401
import tensorflow_probability  # noqa: F401
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code

ROOT = pathlib.Path(__file__).parents[1]

# For each part, the tests that guard a module: the first matching pattern.
TESTS = {
    "flows": {
        "bhn_tf/flows/permutations.py": ["flows/test_permutations.py"],
        "bhn_tf/flows/conditioners.py": ["flows/test_conditioners.py"],
        "bhn_tf/flows/steps.py": ["flows/test_steps.py", "test_hypernets.py"],
        "bhn_tf/flows/chunk*.py": ["test_chunked_hypernet.py"],
    },
    "bound": {
        "bhn_tf/models/num_examples.py": [
            "models/test_num_examples.py",
            "models/test_bound.py",
            "integration/test_saving.py",
        ],
        "bhn_tf/models/objective.py": [
            "models/test_bound.py",
            "models/test_several_outputs.py",
            "models/test_labels_and_weights.py",
        ],
        "bhn_tf/models/bound.py": [
            "models/test_bound.py",
            "models/test_priors.py",
            "models/test_learned_prior.py",
            "models/test_kl_weight_after_fit.py",
        ],
    },
    "uncertainty": {"bhn_tf/uncertainty.py": ["test_uncertainty.py"]},
    "conformal": {
        "bhn_tf/conformal/*_scores.py": [
            "conformal/test_interval_scores.py",
            "conformal/test_thresholds.py",
            "conformal/test_calibrated.py",
            "conformal/test_calibrated_likelihoods.py",
        ],
        "bhn_tf/conformal/r[!o]*.py": [
            "conformal/test_thresholds.py",
            "conformal/test_risk_and_drift.py",
            "conformal/test_calibrated.py",
        ],
        "bhn_tf/likelihoods/roots.py": ["conformal/test_interval_scores.py"],
        "bhn_tf/conformal/drift.py": ["conformal/test_risk_and_drift.py"],
        "bhn_tf/conformal/serving.py": [
            "conformal/test_calibrated.py",
            "scoring/test_guarantees.py",
        ],
        "bhn_tf/conformal/*.py": ["conformal/test_calibrated.py"],
    },
    "metrics": {
        "bhn_tf/metrics/calibration.py": [
            "metrics/test_calibration.py",
            "metrics/test_metrics_in_keras.py",
        ],
        "bhn_tf/metrics/interval*.py": ["metrics/test_intervals.py"],
        "bhn_tf/metrics/ranking.py": ["metrics/test_ranking.py"],
        "bhn_tf/metrics/survival.py": ["metrics/test_survival.py"],
        "bhn_tf/metrics/*.py": [
            "metrics/test_calibration.py",
            "metrics/test_metrics_in_keras.py",
            "metrics/test_ranking.py",
        ],
    },
}

ARITHMETIC = {"Add", "Sub", "Mul", "Div", "FloorDiv", "Mod", "Pow"}
ORDER = {"Eq", "NotEq", "Lt", "LtE", "Gt", "GtE"}
IDENTITY = {"Is", "IsNot"}


def worth_trying(operator):
    """Without faults that need no test: `a << b` of floats, or a type `A & B`."""
    kind, _, operands = operator.removeprefix("core/").partition("_")
    names = set(operands.split("_"))
    if kind == "ReplaceBinaryOperator":
        return names <= ARITHMETIC
    if kind == "ReplaceComparisonOperator":
        return names <= ORDER or names <= IDENTITY
    return True


def mutants_of(path):
    """For each place in a file, the possible faults: operator, occurrence."""
    tree = get_ast(path.read_text())
    found = collections.defaultdict(list)
    for operator in sorted(filter(worth_trying, cosmic_ray.plugins.operator_names())):
        kind = cosmic_ray.plugins.get_operator(operator)
        if kind.arguments():
            continue
        positions = (
            start
            for node in ast_nodes(tree)
            for start, _ in kind().mutation_positions(node)
        )
        for occurrence, start in enumerate(positions):
            found[start].append((operator, occurrence))
    return found


def sample(part, each):
    """Mutants of a part as file, line, operator and occurrence, and their tests."""
    places = {}
    for pattern, tests in TESTS[part].items():
        for path in sorted(ROOT.glob(pattern)):
            name = path.relative_to(ROOT).as_posix()
            for start, mutants in mutants_of(path).items():
                places.setdefault((name, start), (mutants, tests))
    generator = random.Random(0)
    chosen = sorted(places)
    generator.shuffle(chosen)
    for name, start in chosen[:each]:
        mutants, tests = places[name, start]
        yield [name, start[0], *generator.choice(mutants)], tests


class Mutated(importlib.abc.MetaPathFinder):
    """Imports one module from a source that differs from its file."""

    def __init__(self, name, source):
        self.module = name.removesuffix(".py").removesuffix("/__init__")
        self.module = self.module.replace("/", ".")
        self.source = source

    def find_spec(self, fullname, path, target=None):
        if fullname != self.module:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        spec.loader.get_code = lambda _: compile(self.source, spec.origin, "exec")
        return spec


def outcome(name, source, tests, limit):
    """`survived` or `killed`, and the last line that pytest printed."""
    with tempfile.TemporaryFile("w+") as log:
        process = os.fork()
        if not process:
            status = 1
            try:
                os.setsid()
                os.dup2(log.fileno(), 1)
                os.dup2(log.fileno(), 2)
                sys.meta_path.insert(0, Mutated(name, source))
                files = [f"tests/{test}" for test in tests]
                options = ["-n", "0", "-q", "-x", "--tb=line", "-p", "no:cacheprovider"]
                status = int(pytest.main([*options, *files]))
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(status)
        status = waited(process, limit)
        log.seek(0)
        lines = log.read().split("\n")
    failures = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
    said = (failures or [line for line in lines if line] or [""])[-1][:200]
    if status is None:
        return "killed", f"not over within {limit:.0f} s"
    return ("survived" if status == 0 else "killed"), said


def waited(process, limit):
    """The status that a process ended with; None if it took too long."""
    end = time.monotonic() + limit
    while time.monotonic() < end:
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            return status
        time.sleep(0.05)
    os.killpg(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return None


def durations_without_fault(tests):
    """Seconds of each list of tests, which must pass without a fault."""
    name = "bhn_tf/version.py"
    start = time.monotonic()
    found, said = outcome(name, (ROOT / name).read_text(), tests, 3600)
    assert found == "survived", f"{tests} fail without a fault: {said}"
    return time.monotonic() - start


def main(results, each="30", *parts):
    os.chdir(ROOT)
    # The forks of a process that has computed something would wait forever.
    assert keras.backend.backend() == "tensorflow"
    results = pathlib.Path(results)
    known = results.read_text().splitlines() if results.exists() else []
    done = {tuple(json.loads(line)["mutant"]) for line in known}
    seconds = {}
    for part in parts or TESTS:
        for mutant, tests in sample(part, int(each)):
            if tuple(mutant) in done:
                continue
            name, line, operator, occurrence = mutant
            source = (ROOT / name).read_text()
            kind = cosmic_ray.plugins.get_operator(operator)
            mutated = mutate_code(source, kind(), occurrence)
            key = tuple(tests)
            if key not in seconds:
                seconds[key] = durations_without_fault(tests)
            start = time.monotonic()
            found, said = outcome(name, mutated, tests, 60 + 4 * seconds[key])
            entry = {
                "mutant": mutant,
                "part": part,
                "outcome": found,
                "seconds": round(time.monotonic() - start, 1),
                "said": said,
                "change": [
                    text
                    for text in difflib.ndiff(source.split("\n"), mutated.split("\n"))
                    if text[:2] in ("- ", "+ ")
                ],
            }
            with results.open("a") as file:
                file.write(json.dumps(entry) + "\n")
            print(f"{found}: {name}:{line} {operator} {entry['change']}", flush=True)
    print_summary(results)


def print_summary(results):
    counts = collections.Counter()
    for line in results.read_text().splitlines():
        entry = json.loads(line)
        counts[entry["part"], entry["outcome"]] += 1
    for part in sorted({part for part, _ in counts}):
        total = counts[part, "killed"] + counts[part, "survived"]
        print(f"{part}: {counts[part, 'survived']} of {total} survived")


if __name__ == "__main__":
    main(*sys.argv[1:])
