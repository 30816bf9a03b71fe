"""What is in the README and the pages that it links: blocks of code, and the commands among them."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")])
LANGUAGES = {"python", "sh", "console", "text"}
"""Programs that run as they stand, commands that do, commands with what they print, and all that is neither."""

_BLOCK = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_PROMPT = "$ "


def all_blocks(page: Path) -> list[tuple[str, str]]:
    """Return language and code of each block."""
    return _BLOCK.findall(page.read_text(encoding="utf-8"))


def code_blocks(page: Path, language: str) -> list[str]:
    """Return the blocks of one language."""
    return [code for marked, code in all_blocks(page) if marked == language]


def commands(page: Path) -> list[list[str]]:
    """Return the words of every command line that a page tells to enter."""
    lines = [line for code in code_blocks(page, "sh") for line in _whole_lines(code)]
    told = [line for code in code_blocks(page, "console") for line in _whole_lines(code)]
    lines += [line.removeprefix(_PROMPT) for line in told if line.startswith(_PROMPT)]
    return [words for line in lines if (words := shlex.split(line, comments=True))]


def _whole_lines(code: str) -> list[str]:
    return code.replace("\\\n", " ").splitlines()


def paths_in_tree(text: str) -> list[str]:
    """Return the paths of the tree of a run's folder that stands in a text: what its lines begin with."""
    _, _, rest = text.partition("train_dir/{experiment}/\n")
    return re.findall(r"^ +(\S+)  ", rest.partition("\n\n")[0], re.MULTILINE)
