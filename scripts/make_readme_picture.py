"""Draws the log of a finished run as a terminal would show it, for the README.

``make run``, then ``python scripts/make_readme_picture.py train_dir/make_run docs/images/run.svg``. Everything in the
picture is in the run's folder: the lines are those of log.txt, the command is made from the flags that config.json says
were given. Lines about the machine and the processes are left out, nothing is changed.
"""

from __future__ import annotations

import argparse
import io
import re
import sys
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from sample_profiler.config import Config, load_config
from sample_profiler.run_folder import RunFolder
from sf_examples.vizdoom.doom_options import VizdoomOptions

_WIDTH = 120
_PREFIX = re.compile(r"\[[-\d]+ [:,\d]+\]\[\d+\] ")
_LEFT_OUT = ("Machine: ", "Chosen automatically: ", "Started ")
_FLAGS_OF_PLACE = ("experiment", "train_dir", "restart_behavior")
_FONT_FACE = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
_NO_BREAK_SPACE = "\N{NO-BREAK SPACE}"


def make_picture(folder: Path, module: str) -> str:
    """Return an SVG document.

    Args:
        folder: The run's folder, with log.txt and config.json.
        module: The training module that was started.

    Raises:
        ConfigError: config.json cannot be read.
        OSError: log.txt cannot be read.
    """
    console = Console(record=True, width=_WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print(_draw_command(load_config(RunFolder(folder).config, (VizdoomOptions,)), module))
    for line in RunFolder(folder).log.read_text(encoding="utf-8").splitlines():
        prefix = match[0] if (match := _PREFIX.match(line)) else ""
        message = line[len(prefix) :]
        if not message.startswith(_LEFT_OUT):
            for text in _draw_line(prefix, message):
                console.print(text)
    # The fonts are of another site, which a picture in a page cannot ask: the reader's own take their place anyway.
    return _FONT_FACE.sub("", console.export_svg(title="sample_profiler", unique_id="run"))


def main(argv: Sequence[str] | None = None) -> int:
    """Write the picture.

    Returns:
        The exit status.
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="folder of a run that has ended")
    parser.add_argument("picture", type=Path, help="the SVG file to write")
    parser.add_argument("--module", default="sf_examples.vizdoom.train_vizdoom", help="what was started")
    options = parser.parse_args(argv)
    options.picture.parent.mkdir(parents=True, exist_ok=True)
    options.picture.write_text(make_picture(options.folder, options.module), encoding="utf-8")
    return 0


def _draw_command(config: Config, module: str) -> Text:
    flags = [
        f"--{name}={value}"
        for name, value in config.values().items()
        if config.origin(name) == "command line" and name not in _FLAGS_OF_PLACE
    ]
    return Text("\n".join(_wrap(f"$ python -m {module} {' '.join(flags)}", "    ")), style="bold")


def _draw_line(prefix: str, message: str) -> Iterator[Text]:
    """Yield a line of the log, wrapped where it is too long, with the waits of a tree in the background."""
    if prefix:
        is_title = message.endswith("tree view:")
        yield Text.assemble((prefix, "bright_black"), (message, "bold cyan" if is_title else ""))
        return
    indent = message[: len(message) - len(message.lstrip())]
    # "key: value" stays on one line.
    for line in _wrap(message.replace(": ", f":{_NO_BREAK_SPACE}"), indent):
        text = Text(line)
        text.highlight_regex(r"\b[a-z_]*wait_\w+:\s[\d.]+", "bright_black")
        yield text


def _wrap(line: str, indent: str) -> list[str]:
    return textwrap.wrap(
        line, _WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False, drop_whitespace=True
    )


if __name__ == "__main__":
    sys.exit(main())
