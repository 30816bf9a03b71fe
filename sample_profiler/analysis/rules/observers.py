"""Observers, message handlers and slots that take much of the Runner's time.

In processes of their own, components do not wait for them; but what the Runner tells them comes late, and what they
have not been told at the end of the run is left out. In one process, everything waits for them.
"""

from __future__ import annotations

from sample_profiler.analysis.findings import LITTLE, MUCH, Advice, Finding, JudgedRun, percent
from sample_profiler.profiling.tree.render import printable
from sample_profiler.vocabulary import MESSAGE_HANDLERS, OBSERVERS, SLOTS

__all__ = ["mention_observers", "serial_observers"]

_KINDS = {OBSERVERS: "observer", MESSAGE_HANDLERS: "message handler", SLOTS: "slot"}
"""What has a block of its own within these of the Runner."""

_WORTH_TELLING = 0.2  # of what the first takes


def serial_observers(run: JudgedRun) -> Finding | None:
    """All components take turns in one process, and an observer has many of them."""
    shares = _shares(run)
    if not run.facts.is_serial or sum(shares.values()) < LITTLE:
        return None
    largest = _largest(shares)
    evidence = [f"{name} takes {percent(share)} of the time" for name, share in largest]
    name, share = largest[0]
    headline = f"One process does everything, and all components wait for {name}"
    gain = run.gain(1 / max(1 - share, LITTLE), 0.2)
    return Finding("observers", "Runner", headline, evidence, [_advise(name, share, gain)])


def mention_observers(run: JudgedRun, finding: Finding) -> Finding:
    """Add observers that take much of the Runner's time to what another rule has found: they do not limit the run."""
    shares = _shares(run)
    if finding.cause == "observers" or sum(shares.values()) < MUCH:
        return finding
    for name, share in _largest(shares):
        finding.evidence.append(f"{name} takes {percent(share)} of the Runner's time; components do not wait for it")
        finding.advice.append(_advise(name, share, None))
    return finding


def _advise(name: str, share: float, gain: tuple[float, float] | None) -> Advice:
    why = f"it takes {percent(share)} of the Runner's time"
    return Advice(f"a process or thread of its own for what {name} does", why, gain)


def _largest(shares: dict[str, float]) -> list[tuple[str, float]]:
    """Return the three that take most, without those that take little beside the first."""
    largest = sorted(shares.items(), key=lambda part: -part[1])[:3]
    return [(name, share) for name, share in largest if share >= _WORTH_TELLING * largest[0][1]]


def _shares(run: JudgedRun) -> dict[str, float]:
    """Return the shares of the wall that listeners take, without what they have others told meanwhile."""
    blocks = {path: share for runner in run.facts.of_kind("Runner") for path, share in runner.blocks.items()}
    own: dict[str, float] = {}
    for path, share in blocks.items():
        if not (name := _listener(path)):
            continue
        own[name] = own.get(name, 0.0) + share
        outer = path.split("/")[:-2]
        while outer and not (told_by := _listener("/".join(outer))):
            outer.pop()
        if outer:
            own[told_by] -= share
    return own


def _listener(path: str) -> str:
    """Return what a block is that of a listener, in words; empty for all others."""
    *_, kind, name = ("", *path.split("/"))
    return f"{_KINDS[kind]} {printable(name)}" if kind in _KINDS else ""
