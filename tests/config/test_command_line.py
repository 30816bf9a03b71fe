"""Tests of the command line cut into flags and words."""

from __future__ import annotations

import pytest

from sample_profiler.config.assembly import all_flags
from sample_profiler.config.command_line import read_command_line, wants_help
from sample_profiler.config.foreign_flags import describe_foreign
from sample_profiler.config.parts import EvaluationOptions

FLAGS = all_flags()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("--rollout=64", {"rollout": ["64"]}),
        ("--rollout 64", {"rollout": ["64"]}),
        ("--save_milestones_sec -1", {"save_milestones_sec": ["-1"]}),
        ("--obs_subtract_mean -.5", {"obs_subtract_mean": ["-.5"]}),
        ("--benchmark", {"benchmark": ["True"]}),
        ("--benchmark --seed 3", {"benchmark": ["True"], "seed": ["3"]}),
        ("--benchmark no --seed 3", {"benchmark": ["no"], "seed": ["3"]}),
        ("--encoder_mlp_layers 512 256 --seed 3", {"encoder_mlp_layers": ["512", "256"], "seed": ["3"]}),
        ("--encoder_mlp_layers=512 256", {"encoder_mlp_layers": ["512", "256"]}),
        ("--encoder_mlp_layers --seed 3", {"encoder_mlp_layers": [], "seed": ["3"]}),
        ("--seed 3 --encoder_mlp_layers", {"encoder_mlp_layers": [], "seed": ["3"]}),
        ("--rollout=64 --seed=1 --rollout 32", {"rollout": ["32"], "seed": ["1"]}),
        ("--experiment=a=b", {"experiment": ["a=b"]}),
        ("--experiment=", {"experiment": [""]}),
        ("", {}),
    ],
)
def test_flags_and_their_words(line: str, words: dict[str, list[str]]):
    assert read_command_line(line.split(), FLAGS) == (words, [])


def test_words_keep_their_spaces():
    assert read_command_line(["--experiment", "a b"], FLAGS) == ({"experiment": ["a b"]}, [])


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        ("--rolout=3", ["--rolout is not a flag", "did you mean --rollout?"]),
        ("--rolout 3", ["--rolout is not a flag"]),
        ("--layerz 3 4 5", ["--layerz is not a flag"]),
        ("--batch-size=3", ["--batch-size", "did you mean --batch_size?"]),
        ("--env_stack=4", ["did you mean --env_framestack?"]),
        ("--wrokers=4", ["did you mean --num_workers?"]),
        ("--num_steps=128", ["--num_steps is not a flag: leave it out"]),
        (
            "--with_pbt=True",
            ["--with_pbt is not a flag here but Sample Factory's", "population-based training here; leave it out"],
        ),
        ("--env-gpu_actions=1", ["--env-gpu_actions is not a flag here but Sample Factory's"]),
        (
            "--env_gpu_actions=True",
            ["--env_gpu_actions is not a flag here but Sample Factory's", "may live on a GPU"],
        ),
        ("--actor_worker_gpus 0", ["--actor_worker_gpus is not a flag here but Sample Factory's"]),
        ("--algo=DQN", ["--algo is not a flag here but Sample Factory's", "always asynchronous or synchronous PPO"]),
        ("--num_bots=4", ["--num_bots is not a flag here but Sample Factory's", "one of sf_examples.vizdoom's"]),
        ("--record_to=demos", ["--record_to is not a flag here but Sample Factory's", "one of sf_examples.vizdoom's"]),
        ("--zzzzzz", ["--zzzzzz is not a flag: leave it out"]),
        ("--roll=3", ["--roll is not a flag"]),
        ("--rollout", ["--rollout has no value", "at least 1", "--rollout=32"]),
        ("--rollout --seed=3", ["--rollout has no value"]),
        ("--env", ["--env has no value", "--env=value"]),
        ("word", ["'word' belongs to no flag", "--flag=value"]),
        ("--rollout=32 64", ["'64' belongs to no flag"]),
        ("--rollout 32 64", ["'64' belongs to no flag"]),
        ("-r", ["'-r' belongs to no flag"]),
        ("--", ["'--' belongs to no flag"]),
        ("--=3", ["is not a flag"]),
    ],
)
def test_each_mistake_is_one_problem(line: str, parts: list[str]):
    _, problems = read_command_line(line.split(), FLAGS)
    assert len(problems) == 1
    assert all(part in problems[0] for part in parts), problems[0]


@pytest.mark.parametrize(
    "name", ["num_agents", "num_humans", "num_bots", "start_bot_difficulty", "timelimit", "record_to"]
)
def test_flags_of_the_original_for_doom_are_told_to_be_its_own(name: str):
    assert "Sample Factory's" in describe_foreign(name)


@pytest.mark.parametrize(
    "line",
    [
        *(
            "--algo=APPO",
            "--algo appo",
            "--with_pbt False",
            "--pbt_perturb_max=3",
        ),
        *(
            "--use_env_info_cache=True",
            "--use_env_info_cache",
            "--env_gpu_actions=0",
            "--actor_worker_gpus",
            "--num_bots=-1",
        ),
        *("--train_script=mine.train", "--timelimit=None", "--env_gpu_observations=False", "--episode_counter=True"),
    ],
)
def test_flags_of_the_original_that_ask_for_nothing_are_taken(line: str):
    assert read_command_line([*line.split(), "--seed=3"], FLAGS) == ({"seed": ["3"]}, [])


@pytest.mark.parametrize("line", ["--with_pbt", "--push_to_hub", "--timelimit=4", "--algo"])
def test_those_that_ask_for_what_is_not_there_are_refused(line: str):
    assert len(read_command_line(line.split(), FLAGS)[1]) == 1


def test_no_flag_is_said_to_be_somebody_elses_alone():
    assert [name for name in all_flags([EvaluationOptions]) if describe_foreign(name)] == []


def test_all_mistakes_are_found_and_the_rest_is_read():
    words, problems = read_command_line(["--rolout=3", "stray", "--gamma", "--seed=3", "--foo"], FLAGS)
    assert words == {"seed": ["3"]}
    assert len(problems) == 4


def test_a_flag_given_twice_needs_only_its_last_value_to_be_complete():
    assert read_command_line(["--rollout", "--rollout=3"], FLAGS) == ({"rollout": ["3"]}, [])
    assert len(read_command_line(["--rollout=3", "--rollout"], FLAGS)[1]) == 1


@pytest.mark.parametrize(
    ("line", "wanted"), [("--help", True), ("--seed=3 -h", True), ("--seed=3", False), ("", False)]
)
def test_asking_for_help(line: str, wanted: bool):
    assert wants_help(line.split()) is wanted
