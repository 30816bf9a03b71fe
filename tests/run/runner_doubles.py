"""What a Runner has to do with, without processes: its observers, its children, and who replaces them."""

from __future__ import annotations

import contextlib
import time

from sample_profiler.run.observers import RunObserver
from sample_profiler.run.processes import NoProcesses
from sample_profiler.run.records.run_records import RunRecords
from sample_profiler.run.runner_links import RunnerLinks
from sample_profiler.runtime.loop.event_loop import LoopControl
from sample_profiler.runtime.messages.channels import LocalReports
from sample_profiler.runtime.processes.failure import Failure

FAILURE = Failure("RolloutWorker_w1", "EnvError: environment 3 broke", "Traceback ...\nEnvError: environment 3 broke\n")


def take_turn(runner):
    """Have observers and message handlers told what they are owed, as the Runner's loop does."""
    *_, owed = runner.inputs()
    if owed.source.has_pending():
        owed.handle(owed.source.receive())


class CountingControl(LoopControl):
    """Counts what it is told."""

    def __init__(self):
        super().__init__()
        self.num_stops = self.num_refreshes = 0

    def stop(self):
        super().stop()
        self.num_stops += 1

    def refresh(self):
        super().refresh()
        self.num_refreshes += 1


class FakeProcesses(NoProcesses):
    """Notes what it is told."""

    def __init__(self, rescue=None):
        self.rescue = rescue or FakeRescue(covers_workers=False)
        self.beats = []
        self.noted = []
        self.is_beating = False

    def beat(self):
        self.beats.append(time.monotonic())

    @contextlib.contextmanager
    def beating(self):
        self.is_beating = True
        yield
        self.is_beating = False

    def note_shared_memory(self, told):
        self.noted.append(told)


def make_links(config, folder, processes=None, reports=None, update_recording=lambda: None, clock=time.monotonic):
    """Connect a Runner with nobody."""
    return RunnerLinks(
        reports=[LocalReports()] if reports is None else reports,
        processes=processes or NoProcesses(),
        records=RunRecords(folder, config.profiling),
        update_recording=update_recording,
        loop=CountingControl(),
        clock=clock,
    )


class Observer(RunObserver):
    def __init__(self):
        self.events = []

    def on_init(self, runner):
        self.runner = runner

    def on_start(self, runner):
        assert runner is self.runner
        self.events.append(("start", None))

    def on_training_step(self, runner, training_iteration):
        assert runner is self.runner
        self.events.append(("training_step", training_iteration))

    def on_status(self, status):
        self.events.append(("status", status))

    def on_summaries(self, status):
        self.events.append(("summaries", status))

    def on_stop(self, runner):
        assert runner is self.runner
        self.events.append(("stop", None))

    def kinds(self):
        return [kind for kind, _ in self.events]


class EndedChild:
    was_asked_to_end = False

    def __init__(self, name, *last_words):
        self.name = name
        self.reports = LocalReports()
        for report in last_words:
            self.reports.send(report)

    def describe_exit(self):
        return "was killed by signal 9 (SIGKILL)"


class FakeChild(EndedChild):
    """A process that can be replaced."""

    def __init__(self, name, pid=1, *last_words):
        super().__init__(name, *last_words)
        self.pid, self.exit, self.commands, self.num_kills = pid, object(), [], 0
        self.lives = True

    def send_command(self, command):
        self.commands.append(command)

    def is_alive(self):
        return self.lives

    def kill(self):
        self.num_kills += 1


class FakeRescue:
    """Replaces what it is told to, as long as nobody objects."""

    def __init__(self, objection=None, error=None, *, covers_workers=True):
        self.replacements = self
        self.covers_workers = covers_workers
        self.objection, self.error = objection, error
        self.noted, self.num_recent = [], 1
        self.children, self.ended = {}, []

    def release_locks(self):
        """Nobody holds one."""

    def covers(self, component):
        return self.covers_workers and component.startswith("RolloutWorker")

    def find_objection(self, failure):
        return self.objection

    def note(self, failure):
        self.noted.append(failure)

    def await_ends(self, processes):
        return [*processes, *self.ended]

    def find_ended(self):
        return self.ended

    def explain_end(self, child, *, tells_all):
        return Failure(child.name, f"its process {child.describe_exit()}", "")

    def explain(self, failure):
        return failure

    def replace(self, child, asked, names):
        if self.error:
            raise self.error
        return FakeChild(child.name, child.pid + 1)

    def find(self, component):
        return self.children.get(component)

    def locate(self, component):
        return ""

    def examine(self, child, silent_s):
        return Failure(child.name, f"silent for {silent_s:.0f} s", "stacks")
