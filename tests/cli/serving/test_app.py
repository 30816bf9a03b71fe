"""What the live page shows: the figures of the report, escaped; and what it does not give away."""

from __future__ import annotations

import contextlib
import html
import http.client
import json
import os
import re
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote

import pytest

from sample_profiler.cli.serving import actions
from sample_profiler.cli.serving import app as app_module
from sample_profiler.cli.serving import board as board_module
from sample_profiler.cli.serving.watched_runs import WatchedRuns
from sample_profiler.reports.run_report.loading import load_report
from sample_profiler.run_folder import RunFolder
from tests.cli.serving.conftest import TOKEN
from tests.cli.serving.made_runs import SCRIPT, live_run, make_ended_run

ELSEWHERE = [
    *("../secret", "..%2fsecret", "..%252fsecret", "%2e%2e/secret", "....//secret", "/etc/passwd", "%2fetc%2fpasswd"),
    *("first/../../secret", "first%00", "%00", "first%00.json", "", ".", "..", "link", "first/", "FIRST", "a" * 5000),
]


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(board_module, "_INTERVAL_S", 0.05)
    monkeypatch.setattr(board_module, "_SHORTEST_S", 0.01)
    monkeypatch.setattr(board_module, "_REST", 1)


def test_the_figures_of_a_run_are_those_of_its_report(client, train_dir):
    history = {"fps": [[0, 10], [5, 20.5]], "episode_return_policy_0": [[1, -3], [5, 17.25]]}
    facts = {"fps": 1234.5, "frames": {"0": 56789}, "elapsed_s": 46.0, "reason": "all is done", "history": history}
    folder = make_ended_run(train_dir / "first", log="the last words\n", **facts)
    report = load_report(folder)
    shown = client.sections("/events?name=first", lambda sections: "verdict" in sections)
    assert report.verdict.headline in shown["verdict"]
    assert "1,234 frames/s" in shown["head"] or "1,235 frames/s" in shown["head"]
    assert "56,789 frames" in shown["head"] and "all is done" in shown["head"]
    assert "from -3 to 17.25, last 17.25" in shown["Over time"]
    for account in report.accounts:
        assert f"<b>{account.component}</b>" in shown["Where the time went"]
        assert f"{account.wall_s:,.1f} s" in shown["Where the time went"]
    assert "the last words" in shown["Last lines of the log"]
    assert "work" in shown["Blocks"]


def test_the_list_has_all_runs_and_their_curves_on_the_same_axes(client, train_dir):
    for name, last in (("first", 7), ("doom/second", 9)):
        history = {"episode_return_policy_0": [[0, 1], [5, last]]}
        make_ended_run(train_dir / name, frames={"0": 1000 * last}, fps=10.0, history=history)
    path = "/events?compare=first&compare=doom%2Fsecond&compare=nothing"
    shown = client.sections(path, lambda sections: "9,000" in sections.get("list", ""))
    assert "7,000" in shown["list"] and "run?name=doom%2Fsecond" in shown["list"] and "has ended" in shown["list"]
    assert shown["compared"].count("<svg") == 1 and shown["compared"].count("<polyline") == 2


def test_a_run_that_has_failed_says_why(client, train_dir):
    make_ended_run(train_dir / "first", reason="Runner failed", failure="RuntimeError: a <b>boom</b>\nTraceback")
    make_ended_run(train_dir / "second", reason="all is done", failure=None)
    sections = client.sections("/events", lambda shown: shown.get("list", "").count("run?name=") == 2)
    assert sections["list"].count("failed: RuntimeError: a &lt;b&gt;boom&lt;/b&gt;<") == 1
    sections = client.sections("/events?name=first", lambda shown: "verdict" in shown)
    assert "Runner failed · RuntimeError: a &lt;b&gt;boom&lt;/b&gt;<" in sections["head"]


def test_numbers_move_while_a_run_goes_on(client, train_dir):
    with live_run(train_dir / "live") as (_, file):
        file.set_gauge("Runner/frames", 1000.0)
        file.set_gauge("Runner/progress", 0.25)
        file.flush()
        with client.events("/events?name=live") as messages:
            shown = next(message for message in messages if "head" in message)
            assert "is running" in shown["head"] and "25%" in shown["head"]
            file.set_gauge("Runner/progress", 0.5)
            file.flush()
            shown = next(message for message in messages if "50%" in message.get("head", ""))
            assert " left" in shown["head"]
        shown = client.sections("/events", lambda sections: "50%" in sections.get("list", ""))
        assert "1,000" in shown["list"] and "class=going" in shown["list"]


def test_a_run_that_comes_later_is_there_and_one_that_cannot_be_read_says_why(client, train_dir):
    with client.events("/events") as messages:
        assert "There are no runs" in next(message for message in messages if "list" in message)["list"]
        make_ended_run(train_dir / "first")
        bad = make_ended_run(train_dir / "bad")
        RunFolder(bad).session.write_text("{")
        for record in RunFolder(bad).live().records():
            record.unlink()
        shown = next(m for m in messages if "name=first" in m.get("list", "") and "is no session" in m.get("list", ""))
        assert 'class=compare value="first"' in shown["list"]
        RunFolder(bad).log.symlink_to("/etc/passwd")
        next(m for m in messages if "is a link or a device" in m.get("list", ""))
    shown = client.sections("/events?name=bad", lambda sections: "head" in sections)
    assert "is a link or a device" in shown["head"] and "root:" not in json.dumps(shown)


def test_whatever_names_and_logs_say_is_text(client, train_dir):
    name = f'{SCRIPT} " onload=\'x\' style="color:red" &amp;'
    folder = make_ended_run(
        train_dir / name.replace("/", "⁄"),
        log=f"{SCRIPT}\x1b[31m\n",
        reason=SCRIPT,
        history={SCRIPT: [[0, 1], [1, 2]], "episode_return_policy_0": [[0, 1], [1, 2]]},
    )
    RunFolder(folder).captures.mkdir()
    (RunFolder(folder).captures / '<b>".json').write_text("{}")
    RunFolder(folder).config.write_text(json.dumps({"flags": {SCRIPT: {"value": SCRIPT}}}))
    address = quote(folder.name, safe="")
    _, _, page = client.get(f"/run?name={address}")
    shown = client.sections(f"/events?name={address}", lambda sections: "verdict" in sections)
    listed = client.sections(f"/events?compare={address}", lambda sections: "checkbox" in sections.get("list", ""))
    _, _, viewer = client.get(f"/timeline?name={address}&file={quote(SCRIPT)}")
    for text in (page, viewer, *shown.values(), *listed.values()):
        assert "<script>" not in text and "<b>&quot;" not in text and "\x1b" not in text
        assert " style=" not in text.replace("&quot;", "'").replace(" style='color", ""), "style is a script's to set"
        assert "onload='x'" not in text
    assert "&lt;script&gt;" in shown["Last lines of the log"] and "&lt;script&gt;" in shown["Over time"]


NAMES = {
    "quotes": 'it\'s "quoted" \\',
    "long": "a" * 255,
    "long in bytes": "ü" * 127,
    "as in an address": "a b+c%2Fd&name=e#f?g;h",
    "as in a command line": "--help",
    "as in a shell": "$(id)`id`;id|id",
    "dots": "...",
    "a right-to-left word": "שלום",
}


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_runs_of_any_name_are_listed_and_opened(client, train_dir, name):
    make_ended_run(train_dir / name, reason="all is done")
    listed = client.sections("/events", lambda sections: "has ended" in sections.get("list", ""))["list"]
    (address,) = re.findall(r'href="(run\?name=[^"]*)"', listed)
    status, _, page = client.get(f"/{html.unescape(address)}")
    assert status == 200 and html.unescape(re.search(r'data-run="([^"]*)"', page)[1]) == name
    shown = client.sections(f"/events?name={quote(name, safe='')}", lambda sections: "verdict" in sections)
    assert "all is done" in shown["head"]


@pytest.mark.parametrize("name", ["a\nb", "a\rb", "a\x1b[31mb", "a\x7fb", "a\u202eb", os.fsdecode(b"a\xffb")])
def test_names_that_are_no_text_are_left_out(client, train_dir, name):
    make_ended_run(train_dir / "first")
    make_ended_run(train_dir / name)
    listed = client.sections("/events", lambda sections: "has ended" in sections.get("list", ""))["list"]
    assert listed.count("run?name=") == 1 and client.get(f"/run?name={quote(os.fsencode(name))}")[0] == 404


def test_more_tabs_than_there_is_room_for_are_told_and_have_room_once_others_are_closed(client, monkeypatch):
    monkeypatch.setattr(app_module, "_MOST_TABS", 2)
    with client.events("/events") as first, client.events("/events") as second:
        assert next(first) and next(second)
        status, _, text = client.get("/events")
        assert status == 503 and "too many tabs" in text
        assert client.get("/")[0] == 200
    deadline_s = time.monotonic() + 20
    while True:
        with contextlib.suppress(AssertionError), client.events("/events") as messages:
            assert next(messages)
            break
        assert time.monotonic() < deadline_s
        time.sleep(0.05)


@pytest.mark.parametrize("name", ELSEWHERE)
def test_nothing_outside_of_the_folder_is_given_away(client, train_dir, name):
    make_ended_run(train_dir.parent / "secret", log="secret words")
    folder = RunFolder(make_ended_run(train_dir / "first", log="secret words"))
    folder.captures.mkdir()
    (folder.captures / "a.json").write_text("{}")
    (train_dir / "link").symlink_to(train_dir.parent / "secret")
    (train_dir.parent / "secret" / "a.json").write_text('"secret words"')
    paths = [f"/run?name={name}", f"/file?name={name}&file=a.json", f"/file?name=first&file={name}"]
    paths += [f"/events?name={name}"] if name else []
    for path in paths:
        status, _, text = client.get(path)
        assert status in (400, 404), path
        assert "secret words" not in text
    assert client.post(f"/act?name={name}", {"do": "end"})[0] in (400, 404)
    for path in (f"/{name}", f"/page.js/{name}", f"//{name}"):
        status, _, text = client.get(path)
        assert "secret words" not in text and (status in (400, 404) or "data-kind" in text)


def test_a_capture_is_sent_as_it_lies_there(client, train_dir):
    folder = RunFolder(make_ended_run(train_dir / "first"))
    folder.captures.mkdir()
    (folder.captures / "timeline_1.json").write_text('{"traceEvents": []}' + " " * 200_000)
    status, headers, text = client.get("/file?name=first&file=timeline_1.json")
    assert (status, len(text)) == (200, 200_019) and headers["content-type"] == "application/json"
    assert headers["content-disposition"].startswith("attachment")
    assert client.get("/timeline?name=first&file=timeline_1.json")[0] == 200


def test_a_capture_is_written_nowhere_else(client, train_dir):
    (train_dir.parent / "elsewhere").mkdir()
    with live_run(train_dir / "live") as (_, file):
        file.flush()
        RunFolder(train_dir / "live").captures.symlink_to(train_dir.parent / "elsewhere")
        status, _, text = client.post("/act?name=live", {"do": "capture", "seconds": 0.1})
    assert status == 400 and "captures is a link" in json.loads(text)["error"]
    assert list((train_dir.parent / "elsewhere").iterdir()) == []


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"", "one JSON object"),
        (b"[]", "one JSON object"),
        (b"\xff", "one JSON object"),
        (b"[" * 4000, "one JSON object"),
        ({}, "unknown request None"),
        ({"do": ["end"]}, "unknown request"),
        ({"do": "slow"}, "unknown request 'slow'; allowed are save, end, capture"),
        ({"do": "capture", "tool": "rm"}, "unknown tool 'rm'"),
        ({"do": "capture", "seconds": 1e9}, "allowed is more than 0, at most 120"),
        ({"do": "capture", "seconds": "5"}, "allowed is more than 0"),
        ({"do": "capture", "seconds": True}, "allowed is more than 0"),
        (b'{"do": "capture", "seconds": NaN}', "allowed is more than 0"),
        ({"do": "capture"}, "has ended"),
        ({"do": "save"}, "has ended"),
        ({"do": "end"}, "has ended"),
    ],
)
def test_what_cannot_be_done_is_told(client, train_dir, body, problem):
    make_ended_run(train_dir / "first")
    status, _, text = client.post("/act?name=first", body)
    assert status == 400 and problem in json.loads(text)["error"]


def test_long_captures_delay_neither_looks_nor_what_other_runs_are_asked_for(client, train_dir, monkeypatch):
    began, may_end = [], threading.Event()

    def wait_long(run_dir, request, interrupted):
        began.append(run_dir.name)
        if request["do"] == "capture":
            may_end.wait(60)
        return {"told": f"{request['do']} of {run_dir.name}"}

    monkeypatch.setattr(actions, "act", wait_long)
    names = [f"run_{number}" for number in range(40)]  # more than a pool of threads has
    for name in names:
        make_ended_run(train_dir / name)
    with ThreadPoolExecutor(len(names)) as pool:
        captures = [pool.submit(client.post, f"/act?name={name}", {"do": "capture"}) for name in names[1:]]
        try:
            while len(began) < len(captures):
                time.sleep(0.01)
            status, _, text = client.post("/act?name=run_0", {"do": "save"})
            assert (status, json.loads(text)) == (200, {"told": "save of run_0"})
            assert client.post("/act?name=run_1", {"do": "save"})[0] == 409
            client.sections("/events?name=run_1", lambda sections: "verdict" in sections)
            assert not any(capture.done() for capture in captures)
        finally:
            may_end.set()
        assert {capture.result()[0] for capture in captures} == {200}


ASKED = [
    ("GET", "/", TOKEN, b"", {200}),
    ("GET", "/", "wrong", b"", {401}),
    ("GET", "/run?name=..%2F..%2Fetc", TOKEN, b"", {404}),
    ("POST", "/act?name=live", TOKEN, b'{"do": "nothing"}', {400, 409}),
]


def ask_often(client, number):
    """Send 2,500 requests over one connection, and return how many were answered as they should."""
    connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=60)
    num_right = 0
    for index in range(2500):
        method, path, token, body, statuses = ASKED[(number + index) % len(ASKED)]
        connection.request(method, path, body, {"Authorization": f"Bearer {token}"})
        response = connection.getresponse()
        response.read()
        num_right += response.status in statuses
    connection.close()
    return num_right


@pytest.mark.whole_run
@pytest.mark.timeout(300)
def test_ten_thousand_requests_are_answered_and_harm_nobody(client, train_dir):
    with live_run(train_dir / "live") as (_, file):
        file.flush()
        before = sorted(path for path in train_dir.rglob("*"))
        num_open = len(os.listdir("/proc/self/fd"))
        with ThreadPoolExecutor(4) as pool:
            assert sum(pool.map(ask_often, [client] * 4, range(4))) == 10_000
        assert sorted(path for path in train_dir.rglob("*")) == before
        assert len(os.listdir("/proc/self/fd")) < num_open + 20
        assert client.get("/")[0] == 200


def test_one_thread_looks_for_all_tabs_and_for_nobody_when_they_are_closed(client, train_dir, monkeypatch):
    looks = []
    look = WatchedRuns.look
    monkeypatch.setattr(WatchedRuns, "look", lambda self, opened: looks.append(sorted(opened)) or look(self, opened))
    make_ended_run(train_dir / "first")
    tabs = [client.events("/events?name=first") for _ in range(20)]
    messages = [tab.__enter__() for tab in tabs]
    assert all("verdict" in next(m for m in each if "verdict" in m) for each in messages)
    assert len(looks) < 40 and ["first"] in looks
    for tab in tabs:
        tab.__exit__(None, None, None)
    for _ in range(200):
        num_looks = len(looks)
        if client.get("/page.css")[0] == 200 and len(looks) == num_looks > 0 and not _grows(looks):
            break
    else:
        pytest.fail("somebody still looks")


def _grows(looks):
    before = len(looks)
    time.sleep(0.3)
    return len(looks) > before


def test_a_run_that_is_removed_while_somebody_looks_is_told_of(client, train_dir):
    make_ended_run(train_dir / "first", reason="all is done")
    with client.events("/events?name=first") as messages:
        next(message for message in messages if "all is done" in message.get("head", ""))
        shutil.rmtree(train_dir / "first")
        next(message for message in messages if "no such run in this folder any more" in message.get("head", ""))
        make_ended_run(train_dir / "first", reason="done again")
        shown = {}
        for message in messages:
            shown |= message
            if "done again" in shown.get("head", ""):
                break
        assert shown.get("verdict"), "in this message, or in one before its reason was known"


def test_what_is_asked_for_without_its_body_has_an_end(client, train_dir):
    folder = RunFolder(make_ended_run(train_dir / "first"))
    folder.captures.mkdir()
    (folder.captures / "a.json").write_text("{}")
    for path in ("/", "/run?name=first", "/events", "/events?name=first", "/page.js", "/file?name=first&file=a.json"):
        status, headers, text = client.request("HEAD", path)
        assert (status, text) == (200, ""), path
    assert headers["content-length"] == "2"
    assert client.request("HEAD", "/events?name=nothing")[0] == 404


def test_what_many_tabs_show_is_made_once_for_all_of_them(client, train_dir, monkeypatch):
    made, looks = [], []
    format_changes, look = board_module._format_changes, WatchedRuns.look
    monkeypatch.setattr(board_module, "_format_changes", lambda *pair: made.append(1) or format_changes(*pair))
    monkeypatch.setattr(WatchedRuns, "look", lambda *arguments: looks.append(1) or look(*arguments))
    make_ended_run(train_dir / "first")
    with contextlib.ExitStack() as tabs:
        for path in ("/events", "/events?name=first") * 10:
            assert next(message for message in tabs.enter_context(client.events(path)) if message)
        while len(looks) < 20:
            time.sleep(0.01)
    assert len(made) <= 2 * 2 * (len(looks) + 1), "of the list and of the run: all of it, and what has changed"


def test_who_asks_for_what_is_not_there_has_a_look_in_common_with_others(client, train_dir, monkeypatch):
    looks, may_end = [], threading.Event()
    look = WatchedRuns.look
    monkeypatch.setattr(WatchedRuns, "look", lambda *arguments: looks.append(may_end.wait(60)) or look(*arguments))
    with ThreadPoolExecutor(20) as pool:
        answers = [pool.submit(client.get, f"/run?name=run_{number}") for number in range(20)]
        while not all(answer.running() for answer in answers):
            time.sleep(0.01)
        make_ended_run(train_dir / "run_7")
        time.sleep(0.2)  # all of them wait now, or nearly all
        may_end.set()
        assert sorted(answer.result()[0] for answer in answers) == [200] + [404] * 19
    assert len(looks) < 10


def test_who_comes_while_a_look_takes_long_sees_what_there_is(client, train_dir, monkeypatch):
    make_ended_run(train_dir / "first", reason="all is done")
    client.sections("/events?name=first", lambda sections: "all is done" in sections.get("head", ""))
    may_end, look = threading.Event(), WatchedRuns.look
    monkeypatch.setattr(WatchedRuns, "look", lambda *arguments: may_end.wait(60) and look(*arguments))
    try:
        assert client.sections("/events?name=first", lambda sections: "all is done" in sections.get("head", ""))
        assert client.sections("/events", lambda sections: "run?name=first" in sections.get("list", ""))
        assert not may_end.is_set()
    finally:
        may_end.set()
