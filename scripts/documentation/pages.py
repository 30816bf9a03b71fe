"""What MkDocs needs to know of this repository: which pages lie beside `docs`, and where links out of there lead.

It calls this while it makes the site (`make site`). All pages of the site are in one folder.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

__all__ = ["on_files", "on_page_markdown"]

ROOT = Path(__file__).resolve().parents[2]
_DOCS = ROOT / "docs"
_BESIDE = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "CONTRIBUTING.md",
    "CHANGELOG.md": "CHANGELOG.md",
    "LICENSE": "LICENSE.md",
}
"""Pages that are not in `docs`, by their names here: what they are called in the site."""

_WORKER = "iframe-worker.js"
_FILES = "files"  # of the site: where what pages lead to is that is no page
_BLOCKS = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(\]\()([^)#\s]+)")


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the pages that are beside `docs`, and the files that pages lead to."""
    sources = [*(ROOT / name for name in _BESIDE), *sorted(_DOCS.glob("*.md"))]
    for name, page in _BESIDE.items():
        files.append(File.generated(config, page, content=(ROOT / name).read_text(encoding="utf-8")))
    files.append(File.generated(config, _WORKER, abs_src_path=str(Path(__file__).with_name(_WORKER))))
    for target in {target for source in sources for target in _targets(source)}:
        if (place := _place(target)).startswith(f"{_FILES}/"):
            files.append(File.generated(config, place, abs_src_path=str(target)))
    return files


def on_page_markdown(markdown: str, *, page: Page, **_: Any) -> str:
    """Have links lead to where their targets are in the site."""
    named = {place: ROOT / name for name, place in _BESIDE.items()}
    folder = named.get(page.file.src_uri, _DOCS / page.file.src_uri).parent

    def lead(link: re.Match[str]) -> str:
        target = _target(folder, link[2])
        return link[0] if target is None else link[1] + _place(target)

    parts = _BLOCKS.split(markdown)
    parts[::2] = [_LINK.sub(lead, text) for text in parts[::2]]  # the others are blocks of code
    return "".join(parts)


def _targets(source: Path) -> Iterator[Path]:
    for text in _BLOCKS.split(source.read_text(encoding="utf-8"))[::2]:
        for link in _LINK.finditer(text):
            if (target := _target(source.parent, link[2])) is not None:
                yield target


def _target(folder: Path, link: str) -> Path | None:
    """Return the file of this repository that a link leads to; None: it leads elsewhere."""
    path = (folder / link).resolve()
    return path if path.is_file() and path.is_relative_to(ROOT) else None


def _place(target: Path) -> str:
    """Return where a file of this repository is in the site."""
    name = str(target.relative_to(ROOT))
    if target.is_relative_to(_DOCS):
        return str(target.relative_to(_DOCS))
    return _BESIDE.get(name, f"{_FILES}/{name}")
