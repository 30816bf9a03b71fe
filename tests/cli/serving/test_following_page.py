"""How a page in a real browser follows the server: through ends, refusals and runs that go and come."""

from __future__ import annotations

import shutil

import pytest

from sample_profiler.cli.serving import app as app_module
from sample_profiler.cli.serving import board as board_module
from tests.cli.serving.browser_tab import opened_browser
from tests.cli.serving.conftest import TOKEN, serving
from tests.cli.serving.made_runs import make_ended_run
from tests.reports.browser import needs_browser

pytest.importorskip("websockets")
pytestmark = [needs_browser, pytest.mark.timeout(200)]

STATE = "document.querySelector('#state').innerText"
HEAD = "document.querySelector('#head').innerText"
ORDER = "[...document.querySelectorAll('#sections h2')].map(each => each.innerText).join()"
HISTORY = {"fps": [[0, 100.0], [50, 250.0], [100, 1234.0]]}


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(board_module, "_INTERVAL_S", 0.05)
    monkeypatch.setattr(board_module, "_SHORTEST_S", 0.01)
    monkeypatch.setattr(board_module, "_REST", 1)


@pytest.fixture
def browser(tmp_path):
    (tmp_path / "browser").mkdir()
    with opened_browser(tmp_path / "browser") as tab:
        tab.look_like(1300)
        yield tab


def open_run(tab, port, name="first"):
    tab.open(f"http://127.0.0.1:{port}/run?name={name}&token={TOKEN}")
    tab.wait_for(f"{STATE} == 'live'")


def test_sections_that_come_later_are_where_they_belong_and_those_that_go_are_gone(browser, client, train_dir):
    make_ended_run(train_dir / "first")
    open_run(browser, client.port)
    browser.wait_for(f"{ORDER}.startsWith('Where the time went')")
    make_ended_run(train_dir / "first", history=HISTORY)
    browser.wait_for(f"{ORDER}.startsWith('Over time,Where the time went')")
    make_ended_run(train_dir / "first")
    browser.wait_for(f"{ORDER}.startsWith('Where the time went')")
    assert browser.messages == []


def test_a_run_that_is_removed_says_so_and_another_of_its_name_is_shown(browser, client, train_dir):
    make_ended_run(train_dir / "first", reason="all is done")
    open_run(browser, client.port)
    browser.wait_for(f"{HEAD}.includes('all is done')")
    shutil.rmtree(train_dir / "first")
    browser.wait_for(f"{HEAD}.includes('There is no such run in this folder any more') && {ORDER} == ''")
    browser.click("#save")
    browser.wait_for("document.querySelector('#ask').open")
    browser.click("#yes")
    browser.wait_for("document.querySelector('#told').innerText == 'there is no such run in this folder'")
    make_ended_run(train_dir / "first", reason="done again")
    browser.wait_for(f"{HEAD}.includes('done again') && {ORDER} != ''")


def test_a_page_says_why_it_is_refused_and_goes_on_when_it_is_not(browser, client, train_dir, monkeypatch):
    make_ended_run(train_dir / "first")
    monkeypatch.setattr(app_module, "_MOST_TABS", 0)
    browser.open(f"http://127.0.0.1:{client.port}/?token={TOKEN}")
    browser.wait_for(f"{STATE} == 'too many tabs look at this'")
    monkeypatch.setattr(app_module, "_MOST_TABS", 1)
    browser.wait_for(f"{STATE} == 'live' && !!document.querySelector('#list a')")


def test_a_page_that_nobody_sees_is_sent_nothing(browser, client, train_dir):
    make_ended_run(train_dir / "first")
    open_run(browser, client.port)
    hide = "Object.defineProperty(document, 'hidden', {configurable: true, get: () => %s});"
    changed = "document.dispatchEvent(new Event('visibilitychange'))"
    browser.value(hide % "true" + changed)
    assert browser.value("source.readyState") == 2
    make_ended_run(train_dir / "first", reason="meanwhile")
    browser.value(hide % "false" + changed)
    browser.wait_for(f"{HEAD}.includes('meanwhile')")


def test_a_server_that_ends_and_comes_back_at_the_same_port_is_found_again(browser, train_dir):
    make_ended_run(train_dir / "first")
    with serving(train_dir) as client:
        open_run(browser, client.port)
    browser.wait_for(f"{STATE}.startsWith('no answer')")
    make_ended_run(train_dir / "first", reason="meanwhile")
    with serving(train_dir, port=client.port):
        browser.wait_for(f"{STATE} == 'live' && {HEAD}.includes('meanwhile')")
