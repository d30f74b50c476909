import pathlib
import re

ROOT = pathlib.Path(__file__).parents[1]

# Tools that only check code, for which any version will do, and packages that the suite
# does not test.
OTHERS = {"coverage", "cosmic-ray", "mypy", "ruff"}


def test_constraints_are_the_lower_bounds_of_setup():
    code = (ROOT / "setup.py").read_text()
    lowest = re.search(r'TENSORFLOW_RANGE = ">=([\d.]+)', code).group(1)
    expected = dict.fromkeys(re.findall(r'"(\w+)\{TENSORFLOW_RANGE\}', code), lowest)
    expected |= dict(re.findall(r'"([\w-]+)>=([\d.]+)', code))
    lines = (ROOT / "tests" / "lowest_versions.txt").read_text().splitlines()
    pinned = dict(line.split("==") for line in lines if not line.startswith("#"))
    for name, lower in expected.items():
        if name not in OTHERS:
            assert f"{pinned[name]}.".startswith(f"{lower}."), name
