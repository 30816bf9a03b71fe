"""The documentation as a site: every page, no link that leads nowhere, nothing from elsewhere, a search in files."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT
from tests.reports.browser import needs_browser

pytest.importorskip("mkdocs")
pytest.importorskip("material")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    result = build(folder)
    assert result.returncode == 0, result.stderr
    return folder


def build(folder: Path, source: Path = ROOT) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", f"--site-dir={folder}"]
    variables = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(command, cwd=source, env=variables, capture_output=True, text=True, timeout=100, check=False)


def test_all_pages_are_in_it_and_lead_to_each_other(site: Path) -> None:
    names = {"index" if page.name == "README.md" else page.stem for page in PAGES}
    assert names | {"CHANGELOG", "CONTRIBUTING", "LICENSE"} <= {page.stem for page in site.glob("*.html")}
    index = (site / "index.html").read_text(encoding="utf-8")
    assert 'href="live.html"' in index and 'src="images/run.svg"' in index and 'href="LICENSE.html"' in index
    extending = (site / "extending.html").read_text(encoding="utf-8")
    (name,) = re.findall(r'href="(files/[^"]*curriculum.py)"', extending)
    assert (site / name).read_bytes() == (ROOT / "sf_examples" / "custom" / "curriculum.py").read_bytes()


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    for page in site.glob("*.html"):
        html = page.read_text(encoding="utf-8")
        assert re.findall(r'(?:src|srcset)="?(?:https?:)?//[^" ]*|<link[^>]*href="?(?:https?:)?//[^" ]*', html) == []


def test_a_link_that_leads_nowhere_fails_it(tmp_path: Path) -> None:
    for name in ("mkdocs.yml", "scripts", "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE", "sf_examples"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "docs").mkdir()
    for path in (ROOT / "docs").iterdir():
        (tmp_path / "docs" / path.name).symlink_to(path)
    (tmp_path / "docs" / "live.md").unlink()
    (tmp_path / "docs" / "live.md").write_text("# Live\n\n[a](slow.md#no-such-place) [b](../nowhere.md)\n")
    result = build(tmp_path / "site", tmp_path)
    assert result.returncode != 0
    assert "no-such-place" in result.stderr and "nowhere.md" in result.stderr


@needs_browser
def test_the_search_works_in_files_without_a_server(site: Path, tmp_path: Path) -> None:
    pytest.importorskip("websockets")
    from tests.cli.serving.browser_tab import opened_browser

    with opened_browser(tmp_path) as tab:
        tab.look_like(1300)
        tab.open(f"file://{site}/index.html")
        # Before its scripts have run, the page does not listen to what is typed.
        tab.wait_for("document.readyState === 'complete' && !!document.querySelector('.md-search__input')")
        tab.click(".md-search__input")
        tab.ask("Input.insertText", text="flight_recorder_mb")
        link = "document.querySelector('.md-search-result__link[href*=configuration]')"
        tab.wait_for(
            f"!!{link} || (document.querySelector('.md-search__input').dispatchEvent(new Event('keyup')), false)"
        )
        assert tab.messages == []
