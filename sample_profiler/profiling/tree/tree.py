"""A recording as plain data: what readers, reports, files and other processes get.

Nothing here knows a recorder, a clock or a thread. All walks are loops: recursion in the measured code makes trees as
deep as Python's own stack.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sample_profiler.errors import TimingError
from sample_profiler.profiling.tree.kinds import ADD_TIME, Kind, make_kind
from sample_profiler.profiling.tree.statistics import NS_PER_S, DeviceStatistics, Statistics

MAX_DEPTH = 512
"""Of blocks in each other that readers take from a file: as many as a record file has room for by itself."""


class TreeNode:
    """One block under one parent.

    Attributes:
        key: The name of the block; empty for the root.
        kind: What its value means.
        statistics: What is known of its passes.
        children: The blocks inside it by key, in the order first seen.
        is_parallel: Whether it ran in several threads or processes, so that its total may exceed its parent's.
        device: What an accelerator did for it; None where that was not measured.
    """

    __slots__ = ("children", "device", "is_parallel", "key", "kind", "statistics")

    def __init__(self, key: str = "", kind: Kind = ADD_TIME) -> None:
        self.key = key
        self.kind = kind
        self.statistics = Statistics()
        self.children: dict[str, TreeNode] = {}
        self.is_parallel = False
        self.device: DeviceStatistics | None = None

    def add_device(self, device: DeviceStatistics | None) -> None:
        """Add what an accelerator did for this block elsewhere; None adds nothing."""
        if device is not None:
            self.device = self.device or DeviceStatistics()
            self.device.merge(device)

    @property
    def value_ns(self) -> float:
        """The sum, the last pass or the mean of the window, as the kind of this node says."""
        return self.kind.value_ns(self.statistics)

    def walk(self) -> Iterator[TreeNode]:
        """Yield this node and all below it, parents first, in the order first seen."""
        stack = [self]
        while stack:
            node = stack.pop()
            yield node
            stack.extend(reversed(node.children.values()))

    def value_of_key_ns(self, key: str) -> float:
        """Return the values of all nodes with this key added up; a block inside a block of its own key adds nothing.

        Raises:
            KeyError: No block has this key.
        """
        found: list[float] = []
        stack = list(self.children.values())
        while stack:
            node = stack.pop()
            if node.key == key:
                found.append(node.value_ns)
            else:
                stack.extend(node.children.values())
        if not found:
            raise KeyError(key)
        return sum(found)

    def block_keys(self) -> list[str]:
        """Return the keys of all blocks below this node, each once, parents first."""
        nodes = self.walk()
        next(nodes)
        return list(dict.fromkeys(node.key for node in nodes))

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-ready data: durations in seconds, ``children`` by key, ``is_parallel`` only where it is true."""
        plain = self._fields()
        stack = [(self, plain)]
        while stack:
            node, node_plain = stack.pop()
            children = node_plain["children"] = {}
            for key, child in node.children.items():
                children[key] = {"kind": child.kind.method, **child._fields()}
                if child.kind.window is not None:
                    children[key]["window"] = child.kind.window
                stack.append((child, children[key]))
        return plain

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> TreeNode:
        """Return the tree that `to_dict` described.

        Raises:
            TimingError: The data is not such a description.
        """
        try:
            return cls._from_fields(plain)
        except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
            raise TimingError(
                f"this is not the data of a Timing: {type(error).__name__} {error}; allowed is what to_dict() returned"
            ) from error

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as a flat list of rows, so that a deep tree needs no deep stack."""
        rows: list[_Row] = []
        stack: list[tuple[TreeNode, int]] = [(self, -1)]
        while stack:
            node, parent = stack.pop()
            stack.extend((child, len(rows)) for child in reversed(node.children.values()))
            kind = node.kind
            rows.append((parent, node.key, kind.method, kind.window, node.statistics, node.is_parallel, node.device))
        return _tree_from_rows, (rows,)

    def _fields(self) -> dict[str, Any]:
        plain = self.statistics.to_dict()
        if self.is_parallel:
            plain["is_parallel"] = True
        if self.device is not None:
            plain["device"] = self.device.to_dict()
        return plain

    @classmethod
    def _from_fields(cls, plain: Mapping[str, Any]) -> TreeNode:
        root = cls()
        stack = [(root, plain)]
        while stack:
            node, fields = stack.pop()
            node.statistics = Statistics.from_dict(fields)
            node.is_parallel = bool(fields.get("is_parallel", False))
            node.device = DeviceStatistics.from_dict(fields["device"]) if "device" in fields else None
            for key, child_fields in fields["children"].items():
                kind = make_kind(child_fields.get("kind", ADD_TIME.method), child_fields.get("window"))
                child = node.children[key] = cls(key, kind)
                stack.append((child, child_fields))
        return root


_Row = tuple[int, str, str, "int | None", Statistics, bool, "DeviceStatistics | None"]


def _tree_from_rows(rows: list[_Row]) -> TreeNode:
    nodes: list[TreeNode] = []
    for parent, key, method, window, statistics, is_parallel, device in rows:
        node = TreeNode(key, make_kind(method, window))
        node.statistics = statistics
        node.is_parallel = is_parallel
        node.device = device
        if nodes:
            nodes[parent].children[key] = node
        nodes.append(node)
    return nodes[0]


def shown_values_s(root: TreeNode) -> dict[TreeNode, float]:
    """Return what the tree shows for each node, in seconds.

    That is its value, unless the blocks inside it show more: the last pass of a ``timeit`` is shorter than the sum of
    an ``add_time`` inside it. Then it is the total, which is never smaller than what one thread spent inside.
    """
    shown_ns: dict[TreeNode, float] = {}
    for node in reversed(list(root.walk())):
        inside_ns = sum(shown_ns[child] for child in node.children.values())
        shown_ns[node] = node.value_ns if node.value_ns >= inside_ns else node.statistics.total_ns
    return {node: value / NS_PER_S for node, value in shown_ns.items()}
