"""How a page looks: light or dark, as the reader's system is, and on a screen as narrow as a telephone's."""

from __future__ import annotations

__all__ = ["STYLE"]

STYLE = """
:root { color-scheme: light dark; --ink: #1d2530; --dim: #5a6675; --ground: #f4f6f8; --sheet: #fff; --line: #e8ebee;
  --well: #eef1f4; --plot: #f7f9fa; --accent: #3b6ea8; --shadow: #0002; }
@media (prefers-color-scheme: dark) { :root { --ink: #dde3ea; --dim: #9aa7b5; --ground: #14181d; --sheet: #1d232a;
  --line: #2d353e; --well: #2a323b; --plot: #232a32; --accent: #6ba0db; --shadow: #0006; } }
:root { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--ground); }
body { max-width: 1100px; margin: 0 auto; padding: 24px; overflow-wrap: anywhere; }
h1 { font-size: 24px; margin: 0 0 2px; } h2 { font-size: 18px; margin: 14px 0 8px; }
section, .verdict { background: var(--sheet); border-radius: 8px; padding: 4px 20px 16px; margin: 16px 0;
  box-shadow: 0 1px 3px var(--shadow); }
.verdict { border-left: 6px solid var(--accent); padding-top: 14px; }
.verdict p { font-size: 19px; font-weight: 600; margin: 0; }
.cause { text-transform: uppercase; letter-spacing: .06em; font-size: 12px; color: var(--dim); }
.dim { color: var(--dim); } code { background: var(--well); border-radius: 4px; padding: 1px 5px; }
table { border-collapse: collapse; width: 100%; overflow-wrap: normal; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: 3px 10px 3px 0; border-bottom: 1px solid var(--line); vertical-align: top; }
.wide { overflow-x: auto; background:  /* a shadow where there is more */
  linear-gradient(to right, var(--sheet) 30%, transparent) left / 40px 100% no-repeat local,
  linear-gradient(to left, var(--sheet) 30%, transparent) right / 40px 100% no-repeat local,
  linear-gradient(to right, var(--shadow), transparent) left / 12px 100% no-repeat,
  linear-gradient(to left, var(--shadow), transparent) right / 12px 100% no-repeat; }
td.n, th.n { text-align: right; } td.n, td code { white-space: nowrap; }
.row { display: flex; align-items: center; margin: 5px 0; } .row > b { width: 190px; flex: none; font-weight: 500; }
.bar { display: flex; height: 22px; flex: 1; border-radius: 4px; overflow: hidden; background: var(--well); }
.bar span { font-size: 11px; line-height: 22px; padding-left: 4px; overflow: hidden; white-space: nowrap;
  text-overflow: ellipsis; box-sizing: border-box; } .bar span + span { border-left: 1px solid var(--sheet); }
.bars { margin-bottom: 14px; } .note + .wide { margin-top: 14px; } .note { font-size: 13px; margin: 8px 0 0; }
.legend { display: inline-block; margin-right: 12px; }
.icicle { position: relative; } .icicle div { position: absolute; height: 19px; font-size: 11px; line-height: 19px;
  overflow: hidden; white-space: nowrap; text-overflow: ellipsis; padding-left: 3px; box-sizing: border-box;
  border-right: 1px solid var(--sheet);
  border-radius: 2px; }
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(330px, 100%), 1fr)); gap: 14px; }
.charts figure { margin: 0; } figcaption { font-size: 13px; } .charts text { font-size: 10px; fill: var(--dim); }
.plot { fill: var(--plot); }
@media (prefers-color-scheme: dark) { .charts :is(polyline, polygon) { filter: brightness(1.4); } }
details { margin: 8px 0; } summary { cursor: pointer; }
.key:first-child { margin-left: 0; }
.key { display: inline-block; width: 11px; height: 11px; border-radius: 2px; margin: 0 4px 0 12px; }
@media (max-width: 600px) { body { padding: 8px; } section, .verdict { padding: 4px 12px 12px; }
  .wide td { white-space: nowrap; } .wide td:last-child:not(.n) { white-space: normal; min-width: 150px; }
  .row { flex-wrap: wrap; } .row > b, .bar { flex: 0 0 100%; } .bar { margin-bottom: 4px; }
  .verdict thead { display: none; } .verdict :is(table, tbody, tr, td) { display: block; }
  .verdict ul { padding-left: 20px; } .verdict tr { border-bottom: 1px solid var(--line); padding: 6px 0; }
  .verdict td { border: 0; padding: 1px 0; white-space: normal; } .verdict td:first-child { font-weight: 600; }
  .verdict td.n { text-align: left; color: var(--dim); } .verdict td code { white-space: normal; } }
"""
"""Of the page of a report, and of all that shows parts of one."""
