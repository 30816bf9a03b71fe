"""Owns what RolloutWorkers that were lost have recorded: of each the latest files stay, earlier ones are added up.

Each file is as large as its ring of events, and whoever looks at the run reads all of them; a run of weeks may lose
thousands of workers.
"""

from __future__ import annotations

import contextlib
import copy
import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from sample_profiler.analysis.window import COUNTERS
from sample_profiler.errors import RecordError
from sample_profiler.profiling.record.events import Events
from sample_profiler.profiling.record.process_record import PROCESS_GAUGES, ProcessRecord
from sample_profiler.profiling.record.reader import read_record_file
from sample_profiler.profiling.session.session import Session
from sample_profiler.profiling.tree.gauges import GaugeNode
from sample_profiler.profiling.tree.merging import merge_trees
from sample_profiler.profiling.tree.tree import TreeNode
from sample_profiler.run_folder import LiveFolder

__all__ = ["KEPT_FILES", "LostRecords"]

logger = logging.getLogger(__name__)

KEPT_FILES = 4
"""Of how many lost processes of one component the files stay, with their latest events."""


class LostRecords:
    """The recordings of lost processes whose files were removed, added up by component.

    Args:
        live: where record files are.
    """

    def __init__(self, live: LiveFolder) -> None:
        self._live = live
        self._added_up: dict[str, ProcessRecord] = {}

    def session(self) -> Session:
        """Return what was added up, to be merged into a session of the files that there are."""
        return Session(created_s=0.0, processes=list(self._added_up.values()))

    def add_up(self, component: str) -> None:
        """Remove the files of a component's lost processes but the latest ones, and keep what they tell.

        A folder or a file that cannot be read or changed stays as it is: no reason to end a run.
        """
        try:
            dead = sorted(self._dead(component), key=lambda found: found[1].start_anchor.monotonic_ns)
            for path, record in dead[:-KEPT_FILES]:
                path.unlink()  # first: what stays would be added again
                earlier = self._added_up.get(component)
                self._added_up[component] = _without_events(record) if earlier is None else _sum(earlier, record)
                logger.debug("Removed %s: its process was lost; its blocks count in the run's figures", path)
        except OSError as error:
            logger.warning("Recordings of lost processes of %s stay: %s", component, error)

    def _dead(self, component: str) -> Iterator[tuple[Path, ProcessRecord]]:
        for path in self._live.records(component):
            with contextlib.suppress(RecordError):
                record = read_record_file(path)
                if record.is_alive is False:
                    yield path, record


def _without_events(record: ProcessRecord) -> ProcessRecord:
    return replace(record, events=Events(), paths=[], open_blocks=[], thread_names={})


def _sum(earlier: ProcessRecord, later: ProcessRecord) -> ProcessRecord:
    """Return both as if they were one process, the earlier one, that went on to the later one's end."""
    return replace(
        earlier,
        state=later.state,
        is_closed=later.is_closed,
        end_anchor=later.end_anchor,
        read_ns=later.read_ns,
        trees=_sum_trees(earlier, later),
        titles={**earlier.titles, **later.titles},
        gauges=_sum_gauges(earlier, later),
        num_events_lost=earlier.num_events_lost + later.num_events_lost,
        num_nodes_dropped=earlier.num_nodes_dropped + later.num_nodes_dropped,
    )


def _sum_trees(earlier: ProcessRecord, later: ProcessRecord) -> dict[str, TreeNode]:
    trees = copy.deepcopy(earlier.trees)
    for name, tree in later.trees.items():
        merge_trees(trees.setdefault(name, TreeNode()), tree, keeps_kinds=True)
    for tree in trees.values():
        for node in tree.walk():
            node.statistics.recent_ns = node.kind.latest(node.statistics.recent_ns)
    return trees


def _sum_gauges(earlier: ProcessRecord, later: ProcessRecord) -> dict[str, GaugeNode]:
    gauges = {name: gauge.copy() for name, gauge in earlier.gauges.items()}
    owners = later.gauge_owners()
    for name, gauge in later.gauges.items():
        mine = gauges.setdefault(name, GaugeNode())
        so_far = mine.value if mine.count else 0.0
        mine.merge(gauge)
        owner, short = owners[name]
        if short in COUNTERS and (owner or name in PROCESS_GAUGES) and gauge.count:
            mine.value = so_far + gauge.value
    return gauges
