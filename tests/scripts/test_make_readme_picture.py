"""The picture of a run: the lines of its log, the flags of its command, nothing else."""

from __future__ import annotations

import html
import importlib.util
import re
import types
from pathlib import Path
from xml.etree import ElementTree

import pytest

from sample_profiler.config import parse_config, save_config
from sample_profiler.run_folder import RunFolder

ROOT = Path(__file__).resolve().parents[2]
STAMP = "[2026-01-31 12:00:00,123][4711] "
LOG = f"""\
{STAMP}sample_profiler 1.0.0, run folder train_dir/run
{STAMP}Machine: processor something, num_cpus 2
{STAMP}Started Learner_0 as process 4712
{STAMP}Learner 0 profile tree view:
wait_batcher: 0.8035, prepare_batch: 0.5703
train: 42.4581
  {", ".join(f"block_{i}: {i}.0000" for i in range(20))}
{STAMP}Collected {{0: 114688}}, FPS: 2361.6
"""


@pytest.fixture(scope="module")
def script() -> types.ModuleType:
    spec = importlib.util.spec_from_file_location("make_readme_picture", ROOT / "scripts" / "make_readme_picture.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "log.txt").write_text(LOG, encoding="utf-8")
    save_config(parse_config(["--env=doom_benchmark", "--rollout=16", "--experiment=mine"]), RunFolder(tmp_path).config)
    return tmp_path


def lines_of(picture: str) -> list[str]:
    """Return the text of an SVG document by rows: what has the same height."""
    rows: dict[str, str] = {}
    for y, text in re.findall(r'<text class="run-r\d+" x="[\d.]+" y="([\d.]+)"[^>]*>([^<]*)</text>', picture):
        rows[y] = rows.get(y, "") + html.unescape(text).replace("\N{NO-BREAK SPACE}", " ")
    return [row.rstrip() for _, row in sorted(rows.items(), key=lambda item: float(item[0]))]


def test_lines_are_those_of_the_log_without_machine_and_processes(script: types.ModuleType, folder: Path) -> None:
    picture = script.make_picture(folder, "some.module")
    ElementTree.fromstring(picture)
    lines = lines_of(picture)
    assert "$ python -m some.module --env=doom_benchmark --rollout=16" in lines
    shown = [line for line in LOG.splitlines() if not re.search("Machine|Started|block", line)]
    assert [line for line in shown if line not in lines] == []
    assert not any("Machine" in line or "Started" in line for line in lines)


def test_long_lines_break_between_values(script: types.ModuleType, folder: Path) -> None:
    lines = lines_of(script.make_picture(folder, "some.module"))
    broken = [line for line in lines if "block_" in line]
    assert len(broken) > 1
    assert max(map(len, broken)) <= 120
    assert sum(line.count("block_") for line in broken) == 20
    assert all(re.fullmatch(r"  (block_\d+: \d+\.0000,? ?)+", line) for line in broken)


def test_pictures_ask_nobody_for_fonts(script: types.ModuleType, folder: Path) -> None:
    assert "url(" not in script.make_picture(folder, "some.module").replace("url(#", "")
