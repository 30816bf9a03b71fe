"""Opens pages in a headless Chromium that can reach no network, and tells what it says of them."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
BROWSER = next(filter(None, map(shutil.which, BROWSERS)), None)

needs_browser = pytest.mark.skipif(BROWSER is None, reason=f"none of {', '.join(BROWSERS)} is installed")

_FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"),
    *("--disable-background-networking", "--disable-extensions", "--disable-component-update"),
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--enable-logging=stderr",
    "--window-size=1180,2400",
)


@dataclass
class OpenedPage:
    """What became of a page.

    Attributes:
        dom: its document after scripts and layout, as HTML.
        messages: lines of its console: errors, and what it could not load.
    """

    dom: str
    messages: list[str]


def open_page(path: Path, profile: Path, *more: str) -> OpenedPage:
    """Open a local file; `profile` is a folder for the browser's own files."""
    assert BROWSER is not None
    command = [BROWSER, *_FLAGS, *more, f"--user-data-dir={profile}", "--dump-dom", path.as_uri()]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    messages = [line for line in result.stderr.splitlines() if ":CONSOLE" in line]
    return OpenedPage(result.stdout, messages)
