"""The live page of a real run in a real browser without a network: it shows, it moves, and its buttons do."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

from harness.runs import DOOM, live_run
from sample_profiler.profiling.session.session import Session
from sample_profiler.run_folder import RunFolder
from tests.cli.serving.browser_tab import opened_browser
from tests.cli.serving.conftest import TOKEN, serving
from tests.docs.pages import ROOT
from tests.reports.browser import needs_browser

pytest.importorskip("websockets")
pytestmark = [needs_browser, pytest.mark.whole_run, pytest.mark.timeout(400)]

TEXT = "document.body.innerText"


def test_a_live_run_is_shown_captured_opened_and_ended_by_clicks(tmp_path):
    flags = ("--train_for_env_steps=1000000000", "--save_every_sec=1", "--experiment_summaries_interval=1")
    module, *doom = (flag.replace("doom_basic", "doom_benchmark") for flag in DOOM)
    (tmp_path / "browser").mkdir()
    with live_run(module, *doom, *flags, folder=tmp_path) as live, serving(tmp_path) as client:
        live.wait_until_training()
        with opened_browser(tmp_path / "browser") as tab:
            tab.look_like(1300)
            tab.open(f"http://127.0.0.1:{client.port}/?token={TOKEN}")
            tab.wait_for("document.querySelector('#list a')?.innerText == 'run'")
            assert tab.value("location.search") == "", "the token stays in no address"
            tab.wait_for(f"{TEXT}.includes('is running')")
            tab.click("#list a")
            tab.wait_for(f"location.pathname == '/run' && {TEXT}.includes('Where the time went')")
            frames = [tab.wait_for(_FRAMES)]
            tab.wait_for(f"{_FRAMES} > {frames[0]}")

            for width in (1300, 400):
                tab.look_like(width, scheme="dark" if width == 400 else "light")
                assert tab.value("document.documentElement.scrollWidth") <= width
            assert tab.value("getComputedStyle(document.documentElement).backgroundColor") == "rgb(20, 24, 29)"
            tab.look_like(1300)

            width = "document.querySelectorAll('.icicle div:not([hidden])').length"
            shown = tab.value(width)
            tab.click(".icicle div:nth-child(2)")
            tab.wait_for(f"{width} < {shown}")

            tab.click("#capture")
            tab.wait_for("document.querySelector('#ask').open")
            tab.value("document.querySelector('#length').value = 1")
            tab.click("#yes")
            tab.wait_for("!!document.querySelector('#captured')")
            (document,) = RunFolder(live.folder).captures.glob("timeline_*.json")
            num_passes = sum(event["ph"] == "X" for event in json.loads(document.read_text())["traceEvents"])
            tab.click("#captured")
            tab.wait_for(f"location.pathname == '/timeline' && {TEXT}.replaceAll(/\\D/g, '').includes('{num_passes}')")
            tab.wait_for(_IS_PAINTED)

            tab.open(f"http://127.0.0.1:{client.port}/run?name=run")
            tab.wait_for(f"{TEXT}.includes('Where the time went')")
            tab.click("#save")
            tab.wait_for("document.querySelector('#ask').open")
            tab.click("#yes")
            tab.wait_for(f"{TEXT}.includes('A checkpoint of every policy is saved')")

            dialog = "document.querySelector('#ask')"
            for dismiss in (f"{dialog}.close()", f"{dialog}.querySelector('[value=no]').click()"):
                tab.click("#end")  # closed without an answer, as by Escape, it is none: that before was a yes
                tab.wait_for("document.querySelector('#ask').open")
                tab.value(dismiss)
            assert "A checkpoint" in tab.value("document.querySelector('#told').innerText")
            assert live.process.poll() is None
            tab.click("#end")
            tab.wait_for("document.querySelector('#ask').open")
            tab.click("#yes")
            tab.wait_for(f"{TEXT}.includes('The run ends in order')")
            assert live.wait(60) == 0
            tab.wait_for(f"{TEXT}.includes('has ended')")
            _check_figures(live.folder, tab.value(TEXT))
            assert tab.messages == []
    assert "Ending all components: it was asked to end" in live.output


_FRAMES = """Number(
  /([\\d,]+) frames ·/.exec(document.querySelector('#head').innerText)?.[1].replaceAll(',', '') ?? 0
)"""
_IS_PAINTED = """(() => {
  const canvas = document.querySelector("canvas");
  const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  return pixels.some((value, index) => index % 4 == 3 && value);
})()"""


def _check_figures(folder, text):
    """The page, `sample-profiler report` and the session say the same."""
    session = Session.load(RunFolder(folder).session)
    command = [sys.executable, "-m", "sample_profiler", "report", str(folder), "--format", "json"]
    printed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    report = json.loads(printed)
    words = " ".join(text.split())
    assert f"{session.run['fps']:,.0f} frames/s" in words
    assert f"{sum(session.run['frames'].values()):,} frames" in words
    assert " ".join(report["verdict"]["headline"].split()) in words
    for account in report["accounts"]:
        name, wall = re.escape(account["component"]), f"{account['wall_s']:,.1f} s"
        assert re.search(rf"{name}\s+{wall}", words), account["component"]
