"""Components that wait for ever after their game has died, or play Doom; spawned by test_game_watch.py."""

from __future__ import annotations

import subprocess
import sys
import time

from sample_profiler.profiling import Timing
from sf_examples.vizdoom.game_watch import GameWatch, end_player


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


class DoomStarter(StuckPlayer):
    """Begins a game of Doom, and does not listen any more."""

    def start(self) -> None:
        from sf_examples.vizdoom.doom_env import DoomEnv
        from sf_examples.vizdoom.doom_options import VizdoomOptions
        from sf_examples.vizdoom.doom_scenarios import DOOM_SCENARIOS

        self._env = DoomEnv(DOOM_SCENARIOS["doom_basic"], VizdoomOptions())
        self._env.reset(seed=1)
        self._reports.send("playing")
        time.sleep(60)


def make_doom_starter(reports):
    return DoomStarter(reports, notices=False)


_GAME = """
import mmap, sys, time
maps = []
for name in sys.argv[1:]:
    with open(name, "wb+") as file:
        file.truncate(4096)
        maps.append(mmap.mmap(file.fileno(), 4096))
print("mapped", flush=True)
time.sleep(60)
"""


def main():
    """Play a game that maps shared memory, by oneself, as in the serial wiring, and get stuck."""
    game = subprocess.Popen([sys.executable, "-c", _GAME, *sys.argv[1:]], stdout=subprocess.PIPE)
    assert game.stdout.readline() == b"mapped\n"
    player = StuckPlayer(None, notices=False)
    GameWatch(game.pid, "environment 5 (doom)", player)
    end_player("its game is stuck")


if __name__ == "__main__":
    main()
