"""The two texts of a Timing, the tree in the log and the flat list; and how names look in any text."""

from __future__ import annotations

from sample_profiler.profiling.tree.statistics import NS_PER_S, DeviceStatistics
from sample_profiler.profiling.tree.tree import TreeNode, shown_values_s

_INDENT = "  "


def printable(name: str) -> str:
    """Return a name as a terminal may show it: what is not printable is escaped as in ``repr``.

    Names of blocks and gauges are whatever a program makes them of. Escape codes would be obeyed by the terminal, line
    breaks tear a table apart, and lone surrogates cannot be written at all.
    """
    if name.isprintable():
        return name
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in name)


def printable_text(text: str) -> str:
    """Return a text of several lines as a terminal may show it, each line as `printable` has it."""
    return "\n".join(map(printable, text.split("\n")))


def format_tree(name: str, root: TreeNode) -> str:
    """Return the tree under its title line.

    Of each node the children without children come first, on one line; then each other child on a line of its own,
    followed by its block, two spaces deeper. The root itself is not shown. Values are seconds. Where an accelerator
    was measured, its seconds follow: ``forward: 1.2346 [device 1.0123]``.
    """
    shown_s = shown_values_s(root)
    lines = [f"{printable(name)} tree view:"]
    stack = [(root, 0)]
    while stack:
        node, depth = stack.pop()
        if node is not root:
            lines.append(_INDENT * (depth - 1) + _format_node(node, shown_s[node]))
        leaves = [child for child in node.children.values() if not child.children]
        if leaves:
            lines.append(_INDENT * depth + ", ".join(_format_node(leaf, shown_s[leaf]) for leaf in leaves))
        stack.extend((child, depth + 1) for child in reversed(node.children.values()) if child.children)
    return "\n".join(lines)


def format_flat(root: TreeNode) -> str:
    """Return ``key: value`` of every key, joined by commas; a key under several parents shows their sum."""
    return ", ".join(_format_value(key, root.value_of_key_ns(key) / NS_PER_S) for key in root.block_keys())


def format_device(device: DeviceStatistics | None) -> str:
    """Return the seconds of an accelerator, and how many passes are not known; empty if there is nothing to tell."""
    if device is None:
        return ""
    # A pass that is not known is not one that took no time.
    known = [f"{device.total_ns / NS_PER_S:.4f}"] if device.count else []
    unknown = [f"{device.num_unresolved} unresolved"] if device.num_unresolved else []
    return ", ".join(known + unknown)


def _format_node(node: TreeNode, value_s: float) -> str:
    text, device = _format_value(node.key, value_s), format_device(node.device)
    return f"{text} [device {device}]" if device else text


def _format_value(key: str, value_s: float) -> str:
    return f"{printable(key)}: {value_s:.4f}"
