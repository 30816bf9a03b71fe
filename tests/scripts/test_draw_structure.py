"""How the package is built, and that the drawing of it sees what there is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from scripts.draw_structure import count_floors, draw, find_circles, read_imports

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "sample_profiler"


@pytest.fixture(scope="module")
def imports():
    return read_imports(PACKAGE)


def test_no_folder_of_the_package_has_many_files(imports):
    drawing = draw(PACKAGE, PACKAGE, imports)
    assert drawing.num_files_in_largest <= 15, drawing.largest_folder


@pytest.mark.parametrize(("package", "most"), [("profiling", 12), ("runtime", 12), ("components", 9)])
def test_a_package_has_few_entries_at_its_top(package, most, imports):
    assert draw(PACKAGE, PACKAGE / package, imports).num_entries <= most


def test_no_module_imports_itself_by_way_of_others(imports):
    assert find_circles(imports) == []


@pytest.fixture
def package(tmp_path):
    """A package of two floors; one module imports the other at once, and is imported by it in other ways."""
    sources = {
        "__init__.py": "",
        "door.py": "from made.room import inner\nimport made.room.table\nfrom made.room.table import LEGS\nimport os",
        "room/__init__.py": "",
        "room/inner.py": "try:\n    import made.room.table\nexcept ImportError:\n    pass",
        "room/table.py": "def f():\n    import made.door\nif TYPE_CHECKING:\n    from made.room import inner\nLEGS = 4",
        "room/_fast.c": "",
        "room/_fast.pyi": "",
        "room/notes.txt": "",
    }
    for name, source in sources.items():
        path = tmp_path / "made" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
    return tmp_path / "made"


def test_what_is_loaded_at_once_is_an_import(package):
    assert read_imports(package) == {
        "made": set(),
        "made.door": {"made.room.inner", "made.room.table"},
        "made.room": set(),
        "made.room.inner": {"made.room.table"},
        "made.room.table": set(),
    }
    assert read_imports(package, with_late=True)["made.room.table"] == {"made.door", "made.room.inner"}


def test_a_drawing_counts_files_entries_floors_and_arrows(package):
    whole = draw(package, package, read_imports(package))
    assert (whole.name, whole.num_files, whole.num_entries) == ("made", 7, 3)
    assert (whole.num_files_in_largest, whole.largest_folder) == (5, "made/room")
    assert (whole.num_floors, whole.num_arrows) == (2, 1)
    room = draw(package, package / "room", read_imports(package))
    assert (room.name, room.num_entries, room.num_floors, room.num_arrows) == ("made.room", 5, 2, 1)


def test_circles_are_found_and_count_as_one_floor():
    imports = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set(), "e": {"e", "x"}}
    assert find_circles(imports) == [["b", "c"], ["e"]]
    assert count_floors(imports) == 3


def test_a_circle_is_told_and_is_the_exit_status(package):
    command = [sys.executable, str(ROOT / "scripts" / "draw_structure.py"), str(package)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    told = "No module imports itself by way of others.\nWith imports within functions and for type checkers these do:\n"
    assert f"{told}  made.door, made.room.inner, made.room.table\n" in done.stdout
    (package / "room" / "table.py").write_text("import made.door")
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (1, "")
    assert "Imports in a circle:\n  made.door, made.room.inner, made.room.table\n" in done.stdout


def test_what_is_no_package_is_told(tmp_path):
    command = [sys.executable, str(ROOT / "scripts" / "draw_structure.py"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert f"{tmp_path} is no package: give a folder with an __init__.py" in done.stderr
