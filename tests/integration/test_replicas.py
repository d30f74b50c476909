"""Two replicas do what one device does; see `two_replicas.py` for the checks."""

import json

import pytest

from tests.integration import two_replicas
from tests.integration.asked_cases import asked_cases


@pytest.fixture(scope="module")
def results(request, run_python, tmp_path_factory):
    names = asked_cases(request, "name")
    checks = [name for name in names if name in two_replicas.CHECKS]
    folder = tmp_path_factory.mktemp("replicas")
    output = run_python(two_replicas.__file__, folder, *checks)()
    return json.loads(output.splitlines()[-1])


@pytest.mark.parametrize("name", two_replicas.CHECKS)
def test_two_replicas(results, name):
    assert name in results["ran"]
    assert name not in results["failures"], results["failures"][name]


@pytest.mark.slow
@pytest.mark.parametrize("name", two_replicas.SLOW_CHECKS)
def test_what_takes_long(name, run_python, tmp_path):
    output = run_python(two_replicas.__file__, tmp_path, name)()
    assert json.loads(output.splitlines()[-1]) == {"ran": [name], "failures": {}}
