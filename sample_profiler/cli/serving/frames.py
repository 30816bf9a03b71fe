"""The pages of `sample-profiler serve` before their scripts have filled them, and how they look."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from sample_profiler.cli.capture.capture import CAPTURE_TOOLS
from sample_profiler.profiling.tree.render import printable
from sample_profiler.reports.run_report.style import STYLE

__all__ = ["LIST", "RUN", "STYLE_OF_PAGES", "TIMELINE", "format_frame"]

_STATE = "<span id=state class=dim role=status>connecting …</span>"
_DIALOG = (
    "<dialog id=ask><form method=dialog><p id=question></p><div id=seconds hidden>"
    "<label>seconds <input id=length type=number min=1 max=120 value=5></label> "
    f"<label>tool <select id=tool>{''.join(f'<option>{tool}</option>' for tool in CAPTURE_TOOLS)}</select></label>"
    "</div>"
    "<p><button value=yes id=yes>Yes</button> <button value=no autofocus>No</button></p></form></dialog>"
)

LIST = f"<h1 id=title></h1>{_STATE}<section><h2>Runs</h2><div id=list></div></section>" + (
    "<section><h2>On the same axes</h2><p class=dim>Choose runs by their boxes; without any, those that go on.</p>"
    "<div id=compared></div></section>"
)
RUN = (
    f'<p><a href="./">all runs</a></p><h1 id=title></h1>{_STATE}<div id=head></div>'
    "<p id=actions><button id=save>Save a checkpoint</button> <button id=capture>Capture …</button> "
    f"<button id=end>End the run …</button> <span id=told role=status></span></p>{_DIALOG}<div id=sections></div>"
)
TIMELINE = (
    '<p><a id=back href="./">all runs</a></p><h1 id=title></h1><p class=dim>Wheel, w and s: zoom; drag, a and d:'
    " move; click: what it is; 0: all of it.</p><p id=told role=status>loading …</p><p id=loading>"
    "<progress id=share max=1></progress> <span id=left class=dim></span></p><canvas id=picture tabindex=0></canvas>"
)

STYLE_OF_PAGES = (
    STYLE
    + """
a { color: var(--accent); } .going { color: var(--accent); font-size: 13px; } td span.dim { font-size: 13px; }
pre { font-size: 12px; line-height: 1.4; margin: 0; } .log { max-height: 300px; overflow: auto; white-space: pre-wrap; }
button, select, input { font: inherit; color: inherit; background: var(--well); border: 1px solid var(--line);
  border-radius: 6px; padding: 4px 12px; } button:hover { border-color: var(--accent); }
input[type=checkbox] { padding: 0; width: 18px; height: 18px; } input[type=number] { width: 5em; }
progress { width: min(420px, 45%); accent-color: var(--accent); }
dialog { color: inherit; background: var(--sheet); border: 1px solid var(--line); border-radius: 8px;
  max-width: min(420px, 100vw - 32px); box-sizing: border-box; }
dialog::backdrop { background: #0008; } #told { white-space: pre-wrap; } .icicle div { cursor: zoom-in; }
canvas { width: 100%; height: 70vh; background: var(--sheet); border-radius: 8px; touch-action: none; }
.lost { color: #e4572e; } .on::before { content: "● "; color: #3a9d5d; } #list td:last-child { min-width: 180px; }
#reading { position: fixed; z-index: 1; pointer-events: none; font-size: 12px; padding: 4px 8px; white-space: nowrap;
  background: var(--sheet); border: 1px solid var(--line); border-radius: 6px; box-shadow: 0 1px 6px var(--shadow); }
#reading .key { margin-left: 8px; } .charts line { stroke: var(--dim); stroke-dasharray: 2 2; pointer-events: none; }
@media (max-width: 600px) { #list thead { display: none; } #list :is(table, tbody) { display: block; }
  #list tr { display: flex; flex-wrap: wrap; gap: 0 14px; padding: 8px 0; border-bottom: 1px solid var(--line); }
  #list td { border: 0; padding: 0; white-space: normal; }
  #list td:empty { display: none; } #list td:first-child { width: 18px; }
  #list td:nth-child(2) { flex: 1 0 80%; } #list td:last-child { flex: 1 0 100%; color: var(--dim); }
  #list td:nth-child(3)::before { content: "return "; } #list td:nth-child(4)::after { content: " frames"; }
  #list td:nth-child(5)::after { content: " frames/s"; } #list td:nth-child(6)::after { content: " done"; }
  #list td:nth-child(7)::after { content: " left"; } }
"""
)


def format_frame(title: str, body: str, attributes: Mapping[str, str], script: str) -> str:
    """Return a page that its script fills.

    Args:
        title: of the page, as text.
        body: HTML.
        attributes: data for the script, by name.
        script: name of its file.
    """
    data = "".join(f' data-{name}="{escape(value)}"' for name, value in attributes.items())
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(printable(title))}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="stylesheet" href="page.css">'
        f'<link rel="icon" href="icon.svg"><script src="{script}" defer></script></head>'
        f"<body{data}>{body}</body></html>\n"
    )
