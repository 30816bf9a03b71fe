"""The design's rules of who imports whom, read from the source of every module."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

from sample_profiler.run_folder import RunFolder
from tests.docs.pages import paths_in_tree

ROOT = Path(__file__).parents[1]
PACKAGE = "sample_profiler"

# A package may import only from rows of a lower number, and from itself.
ROWS = {
    "profiling": 0,
    "component_id": 0,
    "errors": 0,
    "files": 0,
    "repeated_warnings": 0,
    "switches": 0,
    "version": 0,
    "run_folder": 0,
    "vocabulary": 0,
    "timers": 1,  # a door to profiling under a short name
    "config": 1,
    "analysis": 1,
    "portable": 1,
    "spaces": 1,
    "runtime": 2,
    "envs": 2,
    "model": 2,
    "reports": 2,
    "ppo": 3,
    "recorded_run": 3,
    "storage": 3,
    "doctor": 3,
    "trackers": 3,
    "components": 4,
    "foreign": 4,
    "policies": 4,
    "run": 5,
    "collector": 6,
    "cli": 7,
    "__main__": 8,  # a door to cli
    "compat": 8,
}
# profiling is usable alone; its errors, how files are written and where they are, are those of the package.
ALLOWED_IN_A_ROW = {
    *(("profiling", "switches"), ("profiling", "version")),
    *(("profiling", "errors"), ("profiling", "files"), ("profiling", "run_folder")),
    *(("run_folder", "errors"), ("run_folder", "files")),
}
# Packages have rooms: folders, and modules that folders need, in rows. What is in none may import all of them.
ROOMS = {
    "analysis": (
        ("work_split",),
        ("accounts",),
        ("facts",),
        ("device_use", "findings"),
        ("core_shares",),
        ("comparing", "learning", "rules", "trends"),
    ),
    "cli": (
        *(("common",), ("report", "tracking")),
        *(("capture", "comparing", "doctor", "exporting", "playing", "training", "tune"), ("serving",)),
    ),
    "compat": (("serving", "settings"), ("helpers",), ("environments", "networks"), ("running",)),
    "components": (("messages",), ("inference_worker",), ("rollout_worker", "training")),
    "config": (("limits",), ("conditions",), ("parts",)),
    "envs": (("forks",), ("contract",), ("attribution", "observations", "pettingzoo"), ("images", "vectors")),
    "model": (
        *(("kernels",), ("distributions", "normalization"), ("policy_network",)),
        *(("policy",), ("exported",)),
    ),
    "profiling": (
        *(("process", "tree"), ("record",), ("recorder",), ("device_clock",), ("ranges", "timing")),
        *(("captures", "timers"), ("recording",), ("session",)),
    ),
    "profiling.captures": (("interpreter", "torch_state"), ("torch_profile",), ("rollouts",)),
    "reports": (("sections",), ("merged", "run_report"), ("timeline",)),
    "run": (("checks", "commands", "layout", "records"), ("extensions", "lost_components")),
    "runtime": (("machine", "signals"), ("messages",), ("commands", "loop"), ("surroundings",), ("processes",)),
}
# The only package that knows how processes are started, found and talked to.
OF_RUNTIME = {"ctypes", "fcntl", "multiprocessing", "select", "psutil"}


def modules() -> list[Path]:
    return sorted((ROOT / PACKAGE).rglob("*.py"))


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def package_of(module: str) -> str:
    """Return what a module of the package counts as in the table: "runtime" for sample_profiler.runtime.loop.turns."""
    _, _, inner = module.partition(".")
    return inner.partition(".")[0]


@cache
def imports_of(source: str) -> tuple[str, ...]:
    """Return the full names of what a module imports anywhere, also within functions and for type checkers alone."""
    return tuple(names_in(ast.walk(ast.parse(source))))


def imports_of_everybody(source: str) -> Iterator[str]:
    """Yield the full names of what a module always imports at once: not within functions, not under an `if`."""

    def walk(node: ast.AST) -> Iterator[ast.AST]:
        yield node
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.If):
                yield from walk(child)

    return names_in(walk(ast.parse(source)))


def read_face() -> dict[str, str]:
    """Return which module defines each name that the package itself offers, also of those that load at first use."""
    face = ast.parse((ROOT / PACKAGE / "__init__.py").read_text())
    imports = [node for node in ast.walk(face) if isinstance(node, ast.ImportFrom) and node.module is not None]
    return {alias.asname or alias.name: str(node.module) for node in imports for alias in node.names}


FACE = read_face()


def names_in(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"relative import in line {node.lineno}"
            assert node.module is not None
            names = (alias.name for alias in node.names)
            # `from sample_profiler import config` imports a package by that name; other names load what defines them.
            face = FACE if node.module == PACKAGE else {}
            yield from (face.get(name, f"{node.module}.{name}") for name in names)


def describe_violations(module: str, source: str) -> list[str]:
    package = package_of(module)
    found = []
    for imported in imports_of(source):
        if imported.split(".")[0] != PACKAGE:
            continue
        target = package_of(imported)
        if target not in ROWS:
            found.append(f"{module} imports {imported}, which is in no row")
        elif target != package and (package, target) not in ALLOWED_IN_A_ROW and ROWS[target] >= ROWS[package]:
            found.append(f"{module} (row {ROWS[package]}) imports {imported} (row {ROWS[target]})")
    return found


def test_the_table_of_rows_in_the_docs_has_all_of_them():
    page = (ROOT / "docs" / "architecture.md").read_text().partition("## Folders")[2].partition("\n## ")[0]
    lines = {int(row): text for row, text in re.findall(r"^\| (\d) \|(.*)$", page, re.MULTILINE)}
    assert {name: row for name, row in ROWS.items() if f"`{name}`" not in lines[row]} == {}


def test_modules_import_only_from_rows_above():
    violations, unknown = [], []
    for path in modules():
        module = name_of(path)
        if module == PACKAGE:
            continue  # loads its public names lazily; tests/packaging/test_package.py watches it
        if package_of(module) not in ROWS:
            unknown.append(module)
            continue
        violations += describe_violations(module, path.read_text())
    assert violations == []
    assert unknown == [], "these modules are in no row of the table of packages"


def test_the_check_of_rows_sees_every_way_of_importing():
    upward = [
        "import sample_profiler.cli.train",
        "from sample_profiler.components import batcher",
        "from sample_profiler import cli",
        "def f():\n    from sample_profiler.storage.dataset import Dataset",
        "if TYPE_CHECKING:\n    import sample_profiler.model",  # side by side counts as upward
    ]
    assert [len(describe_violations("sample_profiler.runtime.loop.turns", source)) for source in upward] == [1] * 5
    assert (
        describe_violations("sample_profiler.runtime.loop.turns", "from sample_profiler.errors import ConfigError")
        == []
    )


def test_a_name_of_the_face_counts_as_an_import_of_what_defines_it():
    source = "from sample_profiler import RANGES_VARIABLE, __version__, train"
    assert describe_violations("sample_profiler.envs.episodes", source) == [
        f"sample_profiler.envs.episodes (row {ROWS['envs']}) imports sample_profiler.cli.train (row {ROWS['cli']})"
    ]
    assert describe_violations("sample_profiler.__main__", source) == []
    for source in ("import sample_profiler", "from sample_profiler import nothing"):
        (found,) = describe_violations("sample_profiler.__main__", source)
        assert found.endswith("which is in no row")


def row_in(package: str, module: str) -> tuple[str, int]:
    """Return what a module lies in at the top of a package, and the row of that; for the package itself the last."""
    entry = module.removeprefix(f"{PACKAGE}.{package}.").partition(".")[0]
    rows = (number for number, names in enumerate(ROOMS[package]) if entry in names)
    return entry, next(rows, len(ROOMS[package]))


def describe_violations_in(package: str, module: str, source: str) -> list[str]:
    """Say which rooms of a package a module of it imports that are in no row above its own."""
    entry, row = row_in(package, module)
    if row == len(ROOMS[package]):
        return []
    within = (name for name in imports_of(source) if name.startswith(f"{PACKAGE}.{package}."))
    targets = {name: row_in(package, name) for name in within}
    return [
        f"{module} ({entry}) imports {name}"
        for name, (other, other_row) in targets.items()
        if other != entry and other_row >= row
    ]


@pytest.mark.parametrize("package", ROOMS)
def test_rooms_import_only_from_rooms_in_rows_above(package):
    found = []
    for path in modules():
        if name_of(path).startswith(f"{PACKAGE}.{package}."):
            found += describe_violations_in(package, name_of(path), path.read_text())
    assert found == []


def test_every_room_is_in_a_row_and_in_the_docs():
    page = (ROOT / "docs" / "architecture.md").read_text()
    folders = [path.parent.relative_to(ROOT / PACKAGE) for path in (ROOT / PACKAGE).glob("*/**/__init__.py")]
    rooms = {folder for folder in folders if len(folder.parts) > 1}
    assert {".".join(room.parts[:-1]) for room in rooms} == set(ROOMS)
    for package, rows in ROOMS.items():
        folder = Path(*package.split("."))
        names = {room.name for room in rooms if room.parent == folder}
        listed = {name for row in rows for name in row}
        assert names <= listed, package
        assert [name for name in listed - names if not (ROOT / PACKAGE / folder / f"{name}.py").exists()] == [], package
        shown = [", ".join(f"`{name}`" for name in row if name in names) for row in rows]
        assert f"| `{package}` | {' → '.join(filter(None, shown))} |" in page


def test_the_check_of_rooms_sees_every_way_of_importing():
    upward = [
        "import sample_profiler.profiling.session.session",
        "from sample_profiler.profiling import timing",
        "from sample_profiler.profiling import Timing",  # the face knows all
        "def f():\n    from sample_profiler.profiling.recording.file import RecordFile",
        "if TYPE_CHECKING:\n    from sample_profiler.profiling.process.gauges import process_gauges",  # side by side
    ]
    module = "sample_profiler.profiling.tree.tree"
    assert [len(describe_violations_in("profiling", module, source)) for source in upward] == [1] * 5
    fine = "from sample_profiler.profiling.tree.kinds import Kind\nfrom sample_profiler.errors import TimingError"
    assert describe_violations_in("profiling", module, fine) == []
    assert describe_violations_in("profiling", "sample_profiler.profiling.flows", upward[0]) == []


def imported_outside(package: str) -> dict[str, set[str]]:
    """Return the top-level names that each module outside of a package imports."""
    paths = [path for path in modules() if package_of(name_of(path)) != package]
    return {name_of(path): {name.split(".")[0] for name in imports_of(path.read_text())} for path in paths}


def test_profiling_imports_the_standard_library_alone():
    """What only some users have is looked for when it is used, or when a switch says so."""
    found = {
        f"{name_of(path)} imports {name}"
        for path in (ROOT / PACKAGE / "profiling").rglob("*.py")
        for name in imports_of_everybody(path.read_text())
        if name.split(".")[0] not in sys.stdlib_module_names | {PACKAGE}
    }
    assert found == set()
    late = "import os\nif TYPE_CHECKING:\n    import torch\nclass C:\n    def f(self):\n        import torch\n"
    assert list(imports_of_everybody(late)) == ["os"]
    assert list(imports_of_everybody("try:\n    import torch\nexcept ImportError:\n    pass")) == ["torch"]


def test_only_runtime_knows_how_processes_are_started_and_talked_to():
    found = {name: imported & OF_RUNTIME for name, imported in imported_outside("runtime").items()}
    assert {name: imported for name, imported in found.items() if imported} == {}


def test_the_package_imports_no_examples_tests_or_scripts():
    others = {"sf_examples", "tests", "scripts", "benchmarks"}
    assert [name for name, imported in imported_outside("").items() if imported & others] == []


def test_folders_beside_the_package_import_one_way():
    below = {"sf_examples": {"scripts", "benchmarks", "tests"}, "scripts": {"benchmarks", "tests"}}
    found = {
        str(path.relative_to(ROOT)): imported
        for folder, others in below.items()
        for path in (ROOT / folder).rglob("*.py")
        if (imported := {name.split(".")[0] for name in imports_of(path.read_text())} & others)
    }
    assert found == {}


def test_only_cli_prints():
    found = [
        f"{path}:{node.lineno}"
        for path in modules()
        if package_of(name_of(path)) != "cli"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    ]
    assert found == []


# What paths are made or looked for with; also `Path("profile")`.
JOINING = {"glob", "rglob", "join", "joinpath", "with_name", "with_stem", "with_suffix", "Path", "PurePath"}


def names_in_a_runs_folder() -> set[str]:
    """Return what files and folders of a run are called, in pieces: what stands in braces in the tree is anything."""
    pieces = {piece for path in paths_in_tree(RunFolder.__doc__ or "") for piece in re.split(r"/|\{\w+\}", path)}
    return pieces - {"", ".json"} | {".rec", ".earlier"}


def texts_of(node: ast.expr, constants: Mapping[str, str]) -> Iterator[str]:
    """Yield the texts that an expression is made of, also of constants by their names."""
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.JoinedStr(values=parts):
            for part in parts:
                yield from texts_of(part, constants)
        case ast.FormattedValue(value=part) | ast.Starred(value=part):
            yield from texts_of(part, constants)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            yield from texts_of(left, constants)
            yield from texts_of(right, constants)
        case ast.Name(id=name) | ast.Attribute(attr=name) if name in constants:
            yield constants[name]


def joined_in(source: str, constants: Mapping[str, str]) -> Iterator[str]:
    """Yield the texts that a module makes paths of: by `/`, by a method, or with a slash or the end of a file's name.

    Sentences, which have spaces, are none.
    """
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.BinOp(left=left, op=ast.Div(), right=right):
                parts = [left, right]
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=parts) if name in JOINING:
                pass
            case ast.Constant(value=str(text)) if "/" in text or re.fullmatch(r"[\w*.]*\.\w+", text):
                parts = [node]
            case _:
                continue
        yield from (text for part in parts for text in texts_of(part, constants) if " " not in text)


def named_like_a_runs(texts: Iterable[str], names: set[str]) -> list[str]:
    return [text for text in texts if names & set(re.split(r"[/*?]", text))]


def text_constants() -> dict[str, str]:
    """Return all texts that have a name in the package."""
    return {
        target.id: statement.value.value
        for path in modules()
        for statement in ast.parse(path.read_text()).body
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Constant)
        for target in statement.targets
        if isinstance(target, ast.Name) and isinstance(statement.value.value, str)
    }


def test_only_run_folder_knows_what_files_of_a_run_are_called():
    names, constants = names_in_a_runs_folder(), text_constants()
    found = {
        name: joined
        for path in modules()
        if (name := name_of(path)) != f"{PACKAGE}.run_folder"
        and (joined := named_like_a_runs(joined_in(path.read_text(), constants), names))
    }
    assert found == {}


def test_the_check_of_names_sees_every_way_of_joining_them():
    names, constants = names_in_a_runs_folder(), {"_CAPTURES": "captures"}
    assert {"config.json", "checkpoint_p", "_timers.json", "live", "control.sock", "replay"} < names
    joined = [
        'folder / "config.json"',
        'folder / f"checkpoint_p{policy}" / "newest.pth"',
        'folder / ("summary")',
        "folder / _CAPTURES / name",
        "folder / constants._CAPTURES",
        'folder.joinpath(f"{name}", "profile")',
        'folder.glob("checkpoint_p*")',
        'folder.glob(f"{name}.*.rec")',
        'path.with_name(path.name + ".earlier")',
        'os.path.join(folder, "live")',
        'Path(folder, "milestones")',
        'LOG = "log.txt"',
        'f"{folder}/profile/{name}"',
    ]
    assert [source for source in joined if not named_like_a_runs(joined_in(source, constants), names)] == []
    others = ['{"profile": 1}["profile"]', 'print("captures are in profile/captures of a run")', '"live" in words']
    others += ['folder / "comparison.json"', "count / live", "folder / CAPTURES", "run.captures / name"]
    assert [source for source in others if named_like_a_runs(joined_in(source, constants), names)] == []


def test_every_module_says_what_it_is_for():
    assert [name_of(path) for path in modules() if not ast.get_docstring(ast.parse(path.read_text()))] == []


def unused_names(source: str) -> set[str]:
    """Return a module's private names, and its logger, that nothing in it reads."""
    tree = ast.parse(source)
    own = {name.id for name in ast.walk(tree) if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Load)}
    assigned = {
        target.id
        for statement in tree.body
        if isinstance(statement, ast.Assign | ast.AnnAssign)
        for target in (statement.targets if isinstance(statement, ast.Assign) else [statement.target])
        if isinstance(target, ast.Name)
    }
    return {name for name in assigned - own if name == "logger" or (name[0] == "_" and name[:2] != "__")}


def test_private_names_are_used_where_they_are_defined():
    found = {name_of(path): unused for path in modules() if (unused := unused_names(path.read_text()))}
    assert found == {}
    assert unused_names("__all__ = []\n_USED: int = 4\n_LEFT = A = f(_USED)\nlogger = g()") == {"_LEFT", "logger"}


def modules_after(imports: str) -> set[str]:
    code = f"import sys\n{imports}\nprint(*sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert result.returncode == 0, result.stderr
    return set(result.stdout.split())


def test_a_rollout_worker_and_the_runner_do_without_torch():
    imports = "import sample_profiler.run.layout.topology, sample_profiler.components.rollout_worker.worker\n"
    imports += "import sample_profiler.run.run, sample_profiler.storage.policy_weights"
    loaded = modules_after(imports)
    assert "sample_profiler.components.rollout_worker.worker" in loaded
    assert not loaded & {"torch", "tensorboard", "rich", "vizdoom"}


def test_what_every_process_of_a_run_imports_with_its_main_script_is_little():
    loaded = modules_after("import sample_profiler.cli.train")
    assert "sample_profiler.cli.train" in loaded
    assert not loaded & {"torch", "tensorboard", "rich", "vizdoom", "sample_profiler.cli.training.training"}


def test_train_and_enjoy_do_without_torch_until_flags_are_known_to_be_good():
    for command in ("sample_profiler.cli.training.training", "sample_profiler.cli.playing.playing"):
        loaded = modules_after(f"import {command}")
        assert command in loaded
        assert "torch" not in loaded, command


def test_the_command_knows_its_command_lines_without_what_only_one_of_them_needs():
    loaded = modules_after("import sample_profiler.cli.main")
    assert "sample_profiler.cli.whatif" in loaded
    assert not loaded & {"torch", "tensorboard", "rich", "vizdoom", "gymnasium", "psutil", "sample_profiler.envs"}
    assert not loaded & {
        f"sample_profiler.cli.{name}" for name in ("training.training", "playing.playing", "capture.progress")
    }
