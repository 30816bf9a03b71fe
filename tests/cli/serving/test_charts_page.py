"""Charts and tables of the page in a real browser: values under the pointer, and nothing cut off where it is narrow."""

from __future__ import annotations

import pytest

from tests.cli.serving.browser_tab import opened_browser
from tests.cli.serving.conftest import TOKEN
from tests.cli.serving.made_runs import make_ended_run
from tests.reports.browser import needs_browser

pytest.importorskip("websockets")
pytestmark = [needs_browser, pytest.mark.timeout(200)]

HISTORY = {"fps": [[0, 100.0], [50, 250.0], [100, 1234.0]], "episode_return_policy_0": [[50, -20.0], [100, 80.0]]}
READING = "document.querySelector('#reading')"
CUT = """[...document.querySelectorAll("#list .wide, .verdict .wide")]
  .filter(part => part.scrollWidth > part.clientWidth).length"""


@pytest.fixture
def tab(train_dir, client, tmp_path):
    for name in ("first", "second of a name that is longer"):
        make_ended_run(train_dir / name, history=HISTORY, frames={"0": 123_456}, fps=1234.0)
    (tmp_path / "browser").mkdir()
    with opened_browser(tmp_path / "browser") as tab:
        tab.look_like(1300)
        tab.open(f"http://127.0.0.1:{client.port}/?token={TOKEN}")
        tab.wait_for("!!document.querySelector('#compared svg')")
        yield tab


def point_at(tab, chart, share):
    """Move the pointer over a chart, from its left (0) to its right (1)."""
    x, y = tab.value(
        f"(() => {{ const plot = document.querySelectorAll('.charts .plot')[{chart}]; plot.scrollIntoView();"
        f" const r = plot.getBoundingClientRect(); return [r.x + {share} * r.width, r.y + r.height / 2]; }})()"
    )
    tab.ask("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)


def test_charts_tell_their_values_where_the_pointer_is(tab):
    point_at(tab, 1, 0.99)
    tab.wait_for(f"{READING}.innerText.endsWith(' s1,2341,234')")
    assert tab.value("document.querySelectorAll('.charts line').length") == 1
    point_at(tab, 1, 0.4)
    tab.wait_for(f"{READING}.innerText.endsWith(' s250250')")
    tab.ask("Input.dispatchMouseEvent", type="mouseMoved", x=2, y=2)
    tab.wait_for(f"{READING}.hidden && !document.querySelector('.charts line')")
    tab.click("#list a")
    tab.wait_for("location.pathname == '/run' && !!document.querySelector('.charts svg')")
    point_at(tab, 0, 0.99)
    tab.wait_for(f"{READING}.innerText.endsWith(' s80')")
    assert tab.messages == []


def test_a_narrow_page_shows_the_list_and_the_verdict_whole(tab):
    tab.look_like(400)
    assert tab.value(CUT) == 0 and tab.value("document.documentElement.scrollWidth") <= 400
    tab.click("#list a")
    tab.wait_for("!!document.querySelector('.verdict')")
    assert tab.value(CUT) == 0 and tab.value("document.documentElement.scrollWidth") <= 400
