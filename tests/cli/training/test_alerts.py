"""What somebody is called for, once for each time; and that whoever is called slowly, or not at all, costs nothing."""

from __future__ import annotations

import json
import logging
import signal
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import SimpleNamespace

import pytest

from sample_profiler.cli.training import alerts as alerts_module
from sample_profiler.cli.training.alerts import Alerts, Caller
from sample_profiler.components.messages import CheckpointSaved


class Called:
    """A caller that remembers."""

    def __init__(self):
        self.alerts = []
        self.is_closed = False

    def call(self, alert):
        self.alerts.append(alert)

    def close(self):
        self.is_closed = True

    @property
    def kinds(self):
        return [alert["alert"] for alert in self.alerts]


@pytest.fixture
def called():
    return Called()


@pytest.fixture
def clock(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(alerts_module, "time", SimpleNamespace(monotonic=lambda: now[0], time=lambda: 5.0))
    return now


@pytest.fixture
def run():
    """A Runner as far as alerts look at it."""
    slots = []
    signal = SimpleNamespace(connect=slots.append)
    memory = [500.0]
    return SimpleNamespace(
        signals=SimpleNamespace(checkpoint_saved=signal),
        records=SimpleNamespace(latest=lambda _: memory[0]),
        failure=None,
        slots=slots,
        memory=memory,
    )


@pytest.fixture
def alerts(tmp_path, called, clock, run):
    alerts = Alerts(tmp_path / "doom", called)
    alerts.on_connect_components(run)
    return alerts


def test_a_run_that_trains_nothing_any_more_has_stalled_once_each_time(alerts, called, clock, make_status):
    def pass_time(seconds, frames):
        clock[0] += seconds
        alerts.on_status(make_status(frames={0: frames}))

    pass_time(10_000, 0)  # before the first frame it is starting
    pass_time(1, 100)
    pass_time(299, 100)
    assert called.kinds == []
    pass_time(1, 100)
    pass_time(500, 100)
    assert called.kinds == ["stalled"]
    assert "nothing was trained on for 5 min 00 s: sample-profiler status " in called.alerts[0]["text"]
    pass_time(1, 200)
    pass_time(300, 200)
    assert called.kinds == ["stalled", "stalled"]


def test_a_run_is_slower_than_it_was_at_its_best(alerts, called, make_status):
    rates = [(100, 10), (700, 1000), (800, 501), (900, 499), (1000, 400), (1100, 900), (1200, 450)]
    for elapsed_s, rate in rates:
        alerts.on_status(make_status(elapsed_s=float(elapsed_s), fps={300: float(rate)}))
    assert called.kinds == ["slower", "slower"]
    assert called.alerts[0]["text"] == "499 frames/s over 5 min 00 s, 1,000 at best"


def test_memory_that_grows_is_a_leak_if_it_is_much(alerts, called, run, make_status):
    for elapsed_s, memory_mib in ((100, 5000), (700, 800), (800, 1700), (900, 1824), (1000, 1825), (1100, 9000)):
        run.memory[0] = float(memory_mib)
        alerts.on_status(make_status(elapsed_s=float(elapsed_s), fps={}))
    assert called.kinds == ["leak"]
    assert called.alerts[0]["text"] == "all processes have 1,825 MiB; it was 800 when the run was warm"


def test_a_new_best_policy_is_told_of_and_other_checkpoints_are_not(alerts, called, run, tmp_path):
    (slot,) = run.slots
    for kind in ("latest", "best", "milestone"):
        slot(CheckpointSaved("Learner_1", 1, kind, "/a", 12_000))
    assert called.alerts == [
        {
            "alert": "new_best",
            "text": "policy 1 is the best so far, after 12,000 frames",
            "run": "doom",
            "folder": str(tmp_path / "doom"),
            "time": 5.0,
        }
    ]


def test_a_failure_is_told_of_at_the_end_and_a_good_end_is_not(alerts, called, run):
    alerts.on_stop(run)
    assert called.kinds == [] and called.is_closed
    run.failure = SimpleNamespace(component="Learner_0", message="no memory")
    alerts.on_stop(run)
    assert called.alerts[0]["text"] == "Learner_0 failed: no memory"


ALERT = {"alert": "stalled", "run": "it's; rm -rf", "text": "$(touch bad)", "folder": "/x", "time": 1.0}
PROGRAM = (
    "import json, os, sys; open(sys.argv[1], 'a').write(json.dumps([json.load(sys.stdin), sys.argv[2:], "
    "os.environ['SAMPLE_PROFILER_ALERT'], os.environ['SAMPLE_PROFILER_TEXT']]) + chr(10))"
)


def test_a_command_gets_the_alert_and_no_shell_reads_it(tmp_path):
    told = tmp_path / "told"
    caller = Caller(f'{sys.executable} -c "{PROGRAM}" {told} "two words" $HOME', "")
    caller.call(ALERT)
    caller.call({**ALERT, "alert": "leak"})
    caller.close()
    first, second = map(json.loads, told.read_text().splitlines())
    assert first == [ALERT, ["two words", "$HOME"], "stalled", "$(touch bad)"]
    assert second[2] == "leak"


def test_an_address_gets_the_alert_as_json():
    got = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            got.append((self.headers["Content-Type"], json.loads(self.rfile.read(int(self.headers["Content-Length"])))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        caller = Caller("", f"http://127.0.0.1:{server.server_port}/hook")
        caller.call(ALERT)
        caller.close()
        server.shutdown()
        thread.join()
    assert got == [("application/json", ALERT)]


@pytest.mark.parametrize("command", ["/no/such/program", f"{sys.executable} -c 'import sys; sys.exit(\"oh no\")'"])
def test_a_command_that_fails_is_a_warning_and_the_next_is_tried(command, caplog):
    caplog.set_level(logging.WARNING)
    caller = Caller(command, "http://127.0.0.1:1/")
    for _ in range(3):
        caller.call(ALERT)
    caller.close()
    assert len(caplog.records) == 1, "not one for each"
    assert "The alert 'stalled' reached nobody: " in caplog.text


def test_who_hangs_is_ended_with_the_run_and_takes_no_memory(monkeypatch):
    monkeypatch.setattr(alerts_module, "_LAST_S", 0.2)
    caller = Caller(f"{sys.executable} -c 'import time; time.sleep(60)'", "")
    caller.call(ALERT)
    while (child := caller._child) is None:
        time.sleep(0.01)
    for _ in range(1000):
        caller.call(ALERT)
    assert caller._alerts.qsize() == alerts_module._WAITING
    caller.close()
    assert child.wait(10) == -signal.SIGKILL
