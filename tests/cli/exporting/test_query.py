"""`sample-profiler query`: what was recorded as tables, which can be read and nothing else."""

from __future__ import annotations

import csv
import io
import json
import signal
import subprocess
import sys
import time

import psutil
import pytest

from sample_profiler.cli.main import main
from sample_profiler.profiling.session.session import profile_session, read_session
from sample_profiler.run_folder import RunFolder
from tests.docs.pages import ROOT


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("query") / "run"
    with profile_session(folder) as timing:
        for _ in range(3):
            with timing.add_time("work"), timing.add_time("inside"):
                pass
        with timing.add_time('it\'s "named"'):
            pass
    path = RunFolder(folder).session
    session = json.loads(path.read_text())
    session["run"]["history"] = {"fps": [[0, 10], [5, 20.5]]}
    path.write_text(json.dumps(session))
    return folder


def ask(capsys, folder, sql, *flags):
    assert main(["query", str(folder), sql, *flags]) == 0
    return capsys.readouterr().out


def test_blocks_are_those_of_the_session(run_dir, capsys):
    sql = "SELECT component, path, block, depth, count, total_s, self_s FROM blocks ORDER BY depth, path"
    rows = json.loads(ask(capsys, run_dir, sql, "--format=json"))
    assert [(row["path"], row["depth"], row["count"]) for row in rows] == [
        ('it\'s "named"', 1, 1),
        ("work", 1, 3),
        ("work/inside", 2, 3),
    ]
    tree = read_session(run_dir).processes[0].trees["main"].children["work"]
    assert rows[1]["total_s"] == tree.statistics.total_ns / 1e9
    inside_ns = tree.children["inside"].statistics.total_ns
    assert rows[1]["self_s"] == pytest.approx((tree.statistics.total_ns - inside_ns) / 1e9)


def test_events_gauges_accounts_history_and_flags_are_there(run_dir, capsys):
    for table, least in (("events", 7), ("gauges", 1), ("accounts", 1), ("history", 2), ("processes", 1), ("flags", 0)):
        (row,) = json.loads(ask(capsys, run_dir, f"SELECT count(*) AS num FROM {table}", "--format=json"))
        assert row["num"] >= least, table
    sql = "SELECT sum(duration_s) AS events_s, (SELECT total_s FROM blocks WHERE path='work') AS blocks_s FROM events"
    (row,) = json.loads(ask(capsys, run_dir, f"{sql} WHERE path='work'", "--format=json"))
    assert row["events_s"] == pytest.approx(row["blocks_s"], abs=1e-8)


def test_the_file_of_a_session_can_be_asked_too(run_dir, capsys):
    assert "20.5" in ask(capsys, RunFolder(run_dir).session, "SELECT max(value) FROM history")


def test_tables_are_aligned_and_csv_is_csv(run_dir, capsys):
    sql = "SELECT figure, time_s, value FROM history"
    assert ask(capsys, run_dir, sql) == "figure  time_s  value\nfps          0     10\nfps          5   20.5\n"
    rows = list(csv.reader(io.StringIO(ask(capsys, run_dir, "SELECT block FROM blocks", "--format=csv"))))
    assert ['it\'s "named"'] in rows and rows[0] == ["block"]
    assert ask(capsys, run_dir, "SELECT * FROM flags") == "flag  value\n"


@pytest.mark.parametrize(
    "sql",
    [
        *("DROP TABLE blocks", "INSERT INTO flags VALUES (1, 2)", "DELETE FROM blocks", "UPDATE blocks SET count=0"),
        *("ATTACH DATABASE '{folder}/new.db' AS other", "VACUUM INTO '{folder}/new.db'", "PRAGMA journal_mode=WAL"),
        *("CREATE TABLE t (a)", "SELECT load_extension('libm.so')", "SELECT 1; SELECT 2", "nonsense", "SELECT '\0'"),
        *(
            "SELECT * FROM nothing",
            "CREATE TEMP TABLE t AS SELECT 1",
            "BEGIN",
            "SELECT writefile('{folder}/new.db', 1)",
        ),
    ],
)
def test_nothing_can_be_changed_and_no_file_opened(run_dir, tmp_path, capsys, sql):
    assert main(["query", str(run_dir), sql.replace("{folder}", str(tmp_path))]) == 2
    assert "the query cannot be answered: " in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "sql", ["SELECT count(*) FROM numbers", "SELECT n FROM numbers", "SELECT n FROM numbers ORDER BY n"]
)
def test_ctrl_c_ends_a_question_that_takes_for_ever(run_dir, sql):
    endless = f"WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers) {sql}"
    command = [sys.executable, "-m", "sample_profiler", "query", str(run_dir), endless]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        while not any(thread.user_time for thread in psutil.Process(process.pid).threads()[1:]):
            time.sleep(0.01)  # until a second thread computes
        process.send_signal(signal.SIGINT)
        printed, told = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert (process.returncode, printed) == (130, "") and "Traceback" not in told


def test_the_schema_is_what_the_tables_have(run_dir, capsys):
    assert main(["query", "--schema"]) == 0
    schema = capsys.readouterr().out
    for table in ("processes", "blocks", "events", "gauges", "accounts", "history", "flags"):
        columns = ask(capsys, run_dir, f"SELECT * FROM {table} LIMIT 0", "--format=csv").strip().split(",")
        told = schema.partition(f"CREATE TABLE {table} ")[2].partition(";")[0]
        assert all(f"{column} " in told for column in columns)


@pytest.mark.parametrize("words", [[], ["somewhere"]])
def test_without_a_question_it_says_what_to_give(words, capsys):
    assert main(["query", *words]) == 2
    assert "or --schema" in capsys.readouterr().err


def test_what_is_no_run_is_told(tmp_path, capsys):
    assert main(["query", str(tmp_path), "SELECT 1"]) == 2
    assert "has nothing to read" in capsys.readouterr().err
