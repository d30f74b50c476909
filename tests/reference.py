"""docs/reference.md: every public name, with a line on what it is, and its place.

python -m tests.reference    # after a public name or its first sentence has changed
"""

import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reference.md"
MODULES = (
    "bhn_tf",
    "bhn_tf.layers",
    "bhn_tf.hypernets",
    "bhn_tf.priors",
    "bhn_tf.likelihoods",
    "bhn_tf.baselines",
    "bhn_tf.callbacks",
    "bhn_tf.uncertainty",
    "bhn_tf.metrics",
    "bhn_tf.conformal",
    "bhn_tf.diagnosis",
    "bhn_tf.active",
    "bhn_tf.attacks",
    "bhn_tf.sklearn",
    "bhn_tf.hamiltonian",
    "bhn_tf.correlation",
    "bhn_tf.data",
    "bhn_tf.plots",
    "bhn_tf.scoring",
    "bhn_tf.beam",
    "bhn_tf.flows",
)
_HEAD = """\
# Reference

Every public name in a line, with the file that has its docstring: arguments with
shapes, what is returned and raised, and an example. This page is written by
`python -m tests.reference`."""


def public_names(module) -> Iterator[tuple[str, object]]:
    """Public classes and functions of a module, by name."""
    for name in sorted(getattr(module, "__all__", vars(module)), key=str.lower):
        value = getattr(module, name)
        is_own = hasattr(module, "__all__") or (
            getattr(value, "__module__", "") == module.__name__
        )
        is_made = inspect.isclass(value) or inspect.isfunction(value)
        if is_made and is_own and not name.startswith("_"):
            yield name, value


def page() -> str:
    """The page as it should be."""
    parts = [_HEAD]
    for module in map(importlib.import_module, MODULES):
        parts += [f"\n## `{module.__name__}`\n", f"{_summary(module)}\n"]
        for name, value in public_names(module):
            file = Path(inspect.getfile(value)).relative_to(ROOT)
            parts.append(f"- [`{name}`](../{file}): {_summary(value)}")
    return "\n".join(parts) + "\n"


def _summary(value) -> str:
    """The first paragraph of a docstring, as one line."""
    return " ".join(inspect.getdoc(value).split("\n\n")[0].split())


if __name__ == "__main__":
    PAGE.write_text(page())
