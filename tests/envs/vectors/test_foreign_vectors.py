"""Vectors as people write them: what a step is told in changes nothing of what is in memory afterwards."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv

from sample_profiler.components.rollout_worker.stepping_group import SteppingGroup
from sample_profiler.envs import inspect_env
from sample_profiler.envs.vectors.vector_agents import VectorAgents
from sample_profiler.errors import EnvContractError
from tests.components.rollout_worker.vector_drivers import Driver, TensorDriver
from tests.doubles.counting_vectors import ActingVector, CountingVector, OnlyDLPack


def step_as_lists(vector):
    return Driver(vector, SteppingGroup)


DRIVES = {"lists": step_as_lists, "arrays": Driver, "tensors": TensorDriver}
WAYS = pytest.mark.parametrize(
    ("speaks", "way"), [*(("numpy", way) for way in ("lists", "arrays")), *(("torch", way) for way in DRIVES)]
)


class Said(CountingVector):
    """Tells each step in another way.

    Args:
        say: what becomes of a step's observations, rewards, flags and infos.
        options: those of the base.
    """

    def __init__(self, say, **options):
        super().__init__(**options)
        self._say = say

    def step(self, actions):
        return self._say(*super().step(actions))


def as_type(values, name):
    return values.to(getattr(torch, name)) if isinstance(values, torch.Tensor) else values.astype(name)


def flags_of(name):
    return lambda seen, rewards, ends, cuts, infos: (seen, rewards, as_type(ends, name), as_type(cuts, name), infos)


def flags_in_lists(seen, rewards, ends, cuts, infos):
    return seen, rewards.tolist(), ends.tolist(), cuts.tolist(), infos


def rewards_in_rows(seen, rewards, ends, cuts, infos):
    return seen, as_type(rewards, "float64")[:, None], ends[:, None], cuts[:, None], infos


def places_of(name):
    return lambda seen, *others: ({**seen, "place": as_type(seen["place"], name)}, *others)


def columns_of_something_wider(seen, rewards, *others):
    stack = torch.stack if isinstance(rewards, torch.Tensor) else np.stack
    wide = stack([seen["place"], -seen["place"]], 2)
    return {**seen, "place": wide[..., 0]}, stack([rewards, -rewards], 1)[:, 0], *others


def running_backwards(seen, rewards, ends, cuts, infos):
    """Of NumPy; beside tensors, too."""
    rewards, ends, cuts = (np.asarray(values)[::-1].copy()[::-1] for values in (rewards, ends, cuts))
    return seen, rewards, ends, cuts, infos


def not_to_be_written_to(seen, rewards, ends, cuts, infos):
    values = [np.array(getattr(each, "array", each)) for each in (*seen.values(), rewards, ends, cuts)]
    for each in values:
        each.setflags(write=False)
    return dict(zip(seen, values, strict=False)), *values[len(seen) :], infos


def not_to_be_written_to_by_dlpack(*told):
    seen, *values, infos = not_to_be_written_to(*told)
    return {key: OnlyDLPack(each) for key, each in seen.items()}, *map(OnlyDLPack, values), infos


def with_gradients(seen, rewards, ends, cuts, infos):
    def leads_back(values):
        return values.clone().requires_grad_() * 1

    final = {"final_obs": {**infos["final_obs"], "place": leads_back(infos["final_obs"]["place"])}}
    infos = infos | final | {"true_objective": leads_back(infos["true_objective"])}
    return {**seen, "place": leads_back(seen["place"])}, leads_back(rewards), ends, cuts, infos


def members_that_ended(ends, cuts):
    return np.flatnonzero(np.asarray(ends) | np.asarray(cuts)).tolist()


def finals_by_member(as_list):
    def say(seen, rewards, ends, cuts, infos):
        finals = np.full(len(rewards), None, dtype=object)
        for member in members_that_ended(ends, cuts):
            finals[member] = {key: values[member] for key, values in infos["final_obs"].items()}
        return seen, rewards, ends, cuts, infos | {"final_obs": finals.tolist() if as_list else finals}

    return say


def last_infos_by_member(seen, rewards, ends, cuts, infos):
    """As gymnasium's vectors had it before version 1."""
    last = np.full(len(rewards), None, dtype=object)
    for member in members_that_ended(ends, cuts):
        last[member] = {"true_objective": infos["true_objective"][member]}
    return seen, rewards, ends, cuts, {"final_observation": infos["final_obs"], "final_info": last, "_final_info": ends}


def same_list_of_infos():
    """Returns one list of dictionaries again and again, and changes what is in it."""
    told = [{} for _ in range(5)]

    def say(seen, rewards, ends, cuts, infos):
        for member, info in enumerate(told):
            info.clear()
            info["true_objective"] = infos["true_objective"][member]
            if member in members_that_ended(ends, cuts):
                info["final_obs"] = {key: values[member] for key, values in infos["final_obs"].items()}
        return seen, rewards, ends, cuts, told

    return say


def with_much_else(seen, rewards, ends, cuts, infos):
    others = {"time_outs": cuts, "log": {"a": 1.0}, "episode": {"r": rewards, "_r": ends}, "_episode": ends, "x": None}
    return seen, rewards, ends, cuts, infos | others


OF_ANY = {
    "flags of uint8": flags_of("uint8"),
    "flags of float32": flags_of("float32"),
    "lists": flags_in_lists,
    "rows of float64": rewards_in_rows,
    "observations of float64": places_of("float64"),
    "observations of float16": places_of("float16"),
    "columns": columns_of_something_wider,
    "backwards": running_backwards,
    "finals in objects": finals_by_member(False),
    "finals in a list": finals_by_member(True),
    "last infos": last_infos_by_member,
    "the same list": same_list_of_infos(),
    "much else": with_much_else,
}


def assert_same(driver, plain):
    assert driver.told() == plain.told()
    for name in ("rewards", "terminated", "truncated", "inactive", "starts_episode"):
        np.testing.assert_array_equal(np.asarray(getattr(driver.memory, name)), getattr(plain.memory, name), name)
    for found, expected in zip(driver.memory.observations.values(), plain.memory.observations.values(), strict=True):
        np.testing.assert_array_equal(np.asarray(found), expected)


@WAYS
@pytest.mark.parametrize("say", OF_ANY.values(), ids=OF_ANY)
def test_it_is_understood_as_if_it_were_said_plainly(speaks, way, say):
    assert_as_plain(Said(say, speaks=speaks), way)


@pytest.mark.parametrize(
    ("say", "speaks", "way"),
    [
        *((not_to_be_written_to, "numpy", way) for way in ("lists", "arrays")),
        *((not_to_be_written_to_by_dlpack, "DLPack", way) for way in DRIVES),
        *((with_gradients, "torch", way) for way in DRIVES),
        *((places_of("bfloat16"), "torch", way) for way in DRIVES),
    ],
)
def test_so_is_what_only_some_can_say(say, speaks, way):
    assert_as_plain(Said(say, speaks=speaks), way)


def assert_as_plain(vector, way):
    plain = step_as_lists(CountingVector()).do_rollouts(6)
    assert_same(DRIVES[way](vector).do_rollouts(6), plain)
    assert len(plain.group.episodes) > 10


@WAYS
@pytest.mark.parametrize("say", [OF_ANY["finals in objects"], OF_ANY["much else"]], ids=["finals", "else"])
def test_a_vector_of_gymnasium_that_tells_finals_begins_anew_within_the_step(speaks, way, say):
    """If it does not say when; else gymnasium's begin anew with the next one."""

    class Undeclared(Said, VectorEnv):
        def __init__(self):
            super().__init__(say, speaks=speaks)
            self.metadata = {}

    assert_as_plain(Undeclared(), way)


@pytest.mark.parametrize("mode", list(AutoresetMode))
@pytest.mark.parametrize("word", ["value", "name"])
def test_when_members_begin_anew_may_be_said_in_words(mode, word):
    vector = CountingVector(mode=mode)
    vector.metadata = {"autoreset_mode": getattr(mode, word)}
    assert_same(Driver(vector).do_rollouts(6), step_as_lists(CountingVector(mode=mode)).do_rollouts(6))


class InTuples(CountingVector):
    """Observations are tuples, and so are final ones: batched, or those of each member.

    Args:
        speaks: as of the base.
        are_by_member: whether final ones are those of each member.
    """

    def __init__(self, speaks, are_by_member):
        super().__init__(speaks=speaks)
        place, odd = (self.observation_space[key] for key in ("place", "odd"))
        self.observation_space = spaces.Tuple([spaces.Dict(a=spaces.Tuple([place])), odd])
        self._are_by_member = are_by_member

    def reset(self, **keywords):
        seen, infos = super().reset(**keywords)
        return self._in_tuples(seen), infos

    def step(self, actions):
        seen, rewards, ends, cuts, infos = super().step(actions)
        finals = self._in_tuples(infos["final_obs"])
        if self._are_by_member:
            batch, finals = infos["final_obs"], np.full(5, None, dtype=object)
            for member in members_that_ended(ends, cuts):
                finals[member] = self._in_tuples({key: values[member] for key, values in batch.items()})
        return self._in_tuples(seen), rewards, ends, cuts, infos | {"final_obs": finals}

    def _in_tuples(self, seen):
        return {"a": (seen["place"],)}, seen["odd"]


@WAYS
@pytest.mark.parametrize("are_by_member", [False, True])
def test_final_observations_may_be_tuples(speaks, way, are_by_member):
    driver = DRIVES[way](InTuples(speaks, are_by_member)).do_rollouts(6)
    told = driver.memory.observations
    assert list(told) == ["0/a/0", "1"]
    plain = step_as_lists(CountingVector()).do_rollouts(6)
    assert driver.group.episodes == plain.group.episodes
    for found, expected in (("0/a/0", "place"), ("1", "odd")):
        np.testing.assert_array_equal(
            np.asarray(driver.memory.observations[found]), plain.memory.observations[expected]
        )


@WAYS
def test_members_may_have_bounds_of_their_own(speaks, way):
    vector = ActingVector(spaces.Box(-1, 1, (2,), np.float32), speaks)
    vector.single_action_space = vector.action_space
    highest = np.linspace(0.1, 0.5, 10, dtype=np.float32).reshape(5, 2)
    vector.action_space = spaces.Box(-highest, highest)
    DRIVES[way](vector).do_rollouts(3)
    largest = np.max([np.abs(np.asarray(actions)) for actions in vector.received], axis=0)
    np.testing.assert_array_equal(largest, highest)


class Broken(CountingVector):
    """Tells something else.

    Args:
        of_reset: what becomes of what a reset returned; None: nothing.
        of_step: the same of a step.
        speaks: as of the base.
    """

    def __init__(self, of_reset, of_step, speaks):
        super().__init__(lengths=(2, 3), speaks=speaks)
        self._of_reset, self._of_step = of_reset, of_step

    def reset(self, **keywords):
        result = super().reset(**keywords)
        return self._of_reset(*result) if self._of_reset else result

    def step(self, actions):
        result = super().step(actions)
        return self._of_step(*result) if self._of_step else result


def twice_as_many(seen, infos):
    cat = torch.cat if isinstance(seen["odd"], torch.Tensor) else np.concatenate
    return {key: cat([values, values]) for key, values in seen.items()}, infos


BROKEN = [
    (lambda seen, infos: seen, None, r"reset\(\) returned \{.* of type dict; it returns \(observation, info\)"),
    (lambda seen, infos: seen["place"], None, r"reset\(\) returned .* it returns \(observation, info\)"),
    (lambda seen, infos: [seen, infos], None, r"reset\(\) returned a list of 2; it returns \(observation, info\)"),
    (twice_as_many, None, "returned observations a list of 4; with 2 agents"),
    (None, lambda *told: told[:4], r"step\(\) returned a tuple of 4; it returns \(observation, reward, terminated"),
    (None, lambda *told: list(told), r"step\(\) returned a list of 5; it returns \(observation, reward, terminated"),
    (None, lambda *told: (*told[:4], None), r"step\(\) returned infos None; they are one dictionary of arrays"),
    (None, lambda *told: (*told[:4], [{}]), r"step\(\) returned infos a list of 1; .* each of 2 members"),
    (
        None,
        lambda *told: (*told[:4], [None, None]),
        r"step\(\) returned info None of type NoneType; it is a dict",
    ),
]


@WAYS
@pytest.mark.parametrize(("of_reset", "of_step", "problem"), BROKEN)
def test_what_cannot_be_read_is_named_in_one_line(speaks, way, of_reset, of_step, problem):
    with pytest.raises(EnvContractError, match=rf"^environment .*{problem}.*$") as raised:
        DRIVES[way](Broken(of_reset, of_step, speaks)).do_rollouts(1)
    assert "\n" not in str(raised.value)


@WAYS
def test_observations_in_a_dictionary_that_the_space_does_not_say_are_named(speaks, way):
    vector = Broken(lambda seen, infos: ({"obs": seen["place"]}, infos), None, speaks)
    vector.observation_space = vector.observation_space["place"]
    with pytest.raises(
        EnvContractError, match=r"returned a dictionary of \['obs'\] as observations; observation_space is"
    ):
        DRIVES[way](vector)


def test_what_is_no_time_to_begin_anew_is_named():
    vector = CountingVector()
    vector.metadata = {"autoreset_mode": "sometimes"}
    with pytest.raises(EnvContractError, match=r"mine: its metadata say autoreset_mode 'sometimes'; it is one of"):
        VectorAgents(vector, "mine")


@pytest.mark.parametrize("kind", [list, tuple, np.stack, lambda frames: torch.from_numpy(np.stack(frames))])
def test_of_pictures_of_all_members_the_first_is_shown(kind):
    vector = CountingVector()
    vector.render = lambda: kind([np.full((2, 4, 3), member, np.uint8) for member in range(5)])
    agents = VectorAgents(vector)
    inspect_env(agents)
    picture = agents.render()
    assert isinstance(picture, np.ndarray)
    assert (picture == np.zeros((2, 4, 3))).all()
    vector.render = lambda: None
    assert agents.render() is None
