"""A component that waits for ever after its game has died; spawned by test_game_watch.py."""

from __future__ import annotations

import subprocess
import time

from sample_profiler.profiling import Timing
from sf_examples.vizdoom.game_watch import GameWatch


class StuckPlayer:
    def __init__(self, reports, notices: bool) -> None:
        self.name = "StuckPlayer"
        self.timing = Timing("StuckPlayer profile")
        self._reports = reports
        self._notices = notices

    def inputs(self):
        return []

    def timers(self):
        return []

    def gauges(self):
        return {}

    def start(self) -> None:
        game = subprocess.Popen(["sleep", "300"])
        watch = GameWatch(game.pid, "environment 5 (doom)", self)
        game.kill()
        game.wait()
        if self._notices:
            with watch:
                pass
            self._reports.send("noticed")
        else:
            with watch:
                time.sleep(60)

    def wait_block(self) -> str:
        return "wait"

    def finish(self) -> None:
        pass


def make_player(notices, reports):
    return StuckPlayer(reports, notices)
