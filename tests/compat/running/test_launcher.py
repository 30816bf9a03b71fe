import shlex

import pytest

from sample_profiler.compat.running.launcher import Experiment, ParamGrid, ParamList, RunDescription, seeds
from sample_profiler.compat.running.launching import launcher_argparser, run
from sample_profiler.errors import UsageError


def test_a_grid_has_all_combinations_and_the_last_flag_changes_first():
    grid = ParamGrid([("a", [0, 1]), (("b", "c"), [(1, 2), (3, 4)])])
    assert list(grid.generate_params(randomize=False)) == [
        {"a": 0, "b": 1, "c": 2},
        {"a": 0, "b": 3, "c": 4},
        {"a": 1, "b": 1, "c": 2},
        {"a": 1, "b": 3, "c": 4},
    ]
    shuffled = list(grid.generate_params(randomize=True))
    assert len(shuffled) == 4 and all(each in shuffled for each in grid.generate_params())
    assert list(ParamList([{"a": 1}]).generate_params(randomize=False)) == [{"a": 1}]
    assert list(ParamGrid([]).generate_params()) == []
    assert len(set(seeds(5))) == 5


def test_command_lines_and_names(tmp_path):
    params = ParamGrid([("learning_rate", [0.1]), ("learning_rounds", [3, 4])]).generate_params()
    description = RunDescription("mine", [Experiment("maze", "python train.py --algo=APPO", params, {"X": "1"})])
    description.experiment_suffix = "first"
    rows = list(description.generate_experiments(str(tmp_path)))
    assert [name for _, name, _, _ in rows] == ["00_maze_l.rat_0.1_l.rou_3", "01_maze_l.rat_0.1_l.rou_4"]
    cmd, name, root, variables = rows[1]
    folder = tmp_path / "mine" / "maze_first"
    assert shlex.split(cmd) == [
        *("python", "train.py", "--algo=APPO", "--learning_rate=0.1", "--learning_rounds=4"),
        *(f"--experiment={name}", f"--train_dir={folder}"),
    ]
    assert (root, variables, folder.is_dir()) == ("mine/maze_first", {"X": "1"}, True)
    plain = RunDescription("mine", [Experiment("maze", "x")], customize_experiment_name=False)
    assert [name for _, name, _, _ in plain.generate_experiments(str(tmp_path))] == ["00_maze"]


def test_experiments_run_as_processes_with_this_package_in_its_place(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(
        "import os, sys, sample_factory, pathlib\n"
        "flags = dict(word[2:].split('=') for word in sys.argv[1:])\n"
        "pathlib.Path(flags['train_dir'], str(os.getpid())).write_text(sample_factory.__file__ + os.environ['X'])\n"
        "sys.exit(int(flags['seed']))\n"
    )
    experiments = [
        Experiment("maze", f"python {script}", ParamGrid([("seed", [0, 1])]).generate_params(), {"X": 7}),
        Experiment("maze", f"python {script}", ParamGrid([("seed", [0])]).generate_params(), {"X": 8}),
    ]
    flags = ["--max_parallel=2", "--pause_between=0", f"--train_dir={tmp_path}"]
    args = launcher_argparser(flags).parse_args(flags)
    assert run(RunDescription("all", experiments), args) == 1
    texts = [path.read_text() for path in (tmp_path / "all" / "maze_").iterdir()]
    assert sorted(text.rpartition("compat/site/sample_factory.py")[2] for text in texts) == ["7", "7", "8"]


def test_experiments_run_nowhere_else():
    with pytest.raises(UsageError, match="--backend=slurm is not served"):
        launcher_argparser(["--backend=slurm"])
