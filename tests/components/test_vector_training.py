"""Training on a vector: the same whether its members step as arrays or one by one, and what was computed by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

from sample_profiler.components import inference_worker
from sample_profiler.envs.agents import AgentsEnv
from sample_profiler.model.actor_critic import ActorCritic
from tests.components.vector_runs import train
from tests.doubles.counting_vectors import SPEAKS, ActingVector, CountingVector, VectorOnDevice
from tests.doubles.graph_stand_in import GraphStandIn


@pytest.mark.parametrize(
    "flags",
    [("--use_rnn=False",), ("--use_rnn=True", "--recurrence=8"), ("--with_vtrace=True", "--async_rl=True")],
    ids=["MLP", "RNN", "V-trace"],
)
@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_the_checkpoint_is_the_same_to_the_last_bit(make_vector_run, monkeypatch, mode, flags):
    options = {"lengths": (2, 3, 5, 11, 999), "mode": mode, "bad_at": (9, 40)}
    with monkeypatch.context() as patch:
        patch.setattr(AgentsEnv, "offers_arrays", False)
        expected, episodes = train(make_vector_run("lists", CountingVector(**options), *flags))
    assert len(expected) > 30
    assert len(episodes) > 50
    for speaks in SPEAKS:
        found, found_episodes = train(make_vector_run(speaks, CountingVector(speaks=speaks, **options), *flags))
        assert found.keys() == expected.keys()
        assert [key for key in expected if not torch.equal(found[key], expected[key])] == []
        assert found_episodes == episodes


@pytest.mark.parametrize("flags", [("--use_rnn=False",), ("--use_rnn=True", "--recurrence=8")], ids=["MLP", "RNN"])
@pytest.mark.parametrize(
    ("mode", "lengths", "bootstrap"),
    [
        (AutoresetMode.SAME_STEP, (2, 3, 5, 11, 999), False),
        (AutoresetMode.NEXT_STEP, (2, 3, 5, 11, 999), False),
        (AutoresetMode.SAME_STEP, (2, 8, 5, 16, 999), True),  # cut off at the end of a trajectory
    ],
)
def test_it_is_the_same_where_trajectories_live_with_the_vector(
    make_vector_run, monkeypatch, mode, lengths, bootstrap, flags
):
    """To the last bit where inference is not asked for values that the Learner computes there."""
    options = {"lengths": lengths, "mode": mode, "bad_at": (9, 40)}
    flags = (*flags, f"--value_bootstrap={bootstrap}")
    with monkeypatch.context() as patch:
        patch.setattr(AgentsEnv, "offers_arrays", False)
        expected, episodes = train(make_vector_run("lists", CountingVector(**options), *flags))
    for speaks in ("torch", "DLPack"):
        run = make_vector_run(speaks, CountingVector(speaks=speaks, **options), *flags, "--serial_mode=True")
        assert run.blueprint.trajectories.device == torch.device("cpu")
        found, found_episodes = train(run)
        assert [key for key in expected if not torch.equal(found[key], expected[key])] == []
        assert found_episodes == episodes


@pytest.mark.parametrize("flags", [("--use_rnn=False",), ("--use_rnn=True", "--recurrence=8")], ids=["MLP", "RNN"])
def test_it_is_the_same_where_a_device_gets_each_step_at_once(make_vector_run, monkeypatch, flags):
    graphs = []

    def find_graph_maker(device, generator):
        return lambda function: graphs.append(GraphStandIn(function, generator)) or graphs[-1]

    monkeypatch.setattr(inference_worker, "find_graph_maker", find_graph_maker)
    flags = (*flags, "--serial_mode=True")
    expected, episodes = train(make_vector_run("plain", CountingVector(speaks="torch"), *flags))
    found, found_episodes = train(make_vector_run("graphs", CountingVector(speaks="torch"), *flags, "--cuda_graphs"))
    assert graphs[0].num_replays > 100
    assert [key for key in expected if not torch.equal(found[key], expected[key])] == []
    assert found_episodes == episodes


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no device")
@pytest.mark.parametrize("flags", [("--use_rnn=False",), ("--use_rnn=True", "--recurrence=8")], ids=["MLP", "RNN"])
def test_on_a_device_it_is_the_same_with_cuda_graphs(make_vector_run, flags):
    flags = (*flags, "--serial_mode=True")
    expected, episodes = train(make_vector_run("plain", VectorOnDevice(), *flags, device="cuda"))
    run = make_vector_run("graphs", VectorOnDevice(), *flags, "--cuda_graphs", device="cuda")
    found, found_episodes = train(run)
    assert run.components[2]._graphed._graphs
    assert [key for key in expected if not torch.equal(found[key], expected[key])] == []
    assert found_episodes == episodes


@pytest.mark.parametrize(
    ("speaks", "is_own", "why"),
    [("numpy", False, "trajectories are not on a GPU"), ("torch", True, "parts that are not the package's own")],
)
def test_where_there_are_no_graphs_it_is_said_why(make_vector_run, monkeypatch, caplog, speaks, is_own, why):
    monkeypatch.setattr(inference_worker, "find_graph_maker", lambda device, generator: GraphStandIn)
    monkeypatch.setattr(ActorCritic, "can_be_graphed", not is_own)
    run = make_vector_run("any", CountingVector(speaks=speaks), "--serial_mode=True", "--cuda_graphs")
    told = [record.getMessage() for record in caplog.records if "cuda_graphs" in record.getMessage()]
    assert len(told) == 1
    assert told[0].startswith("--cuda_graphs=True changes nothing: ")
    assert why in told[0]
    run.train(1)


@pytest.mark.parametrize("mode", [AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP])
def test_what_the_learner_makes_of_final_observations_is_what_inference_does(make_vector_run, mode):
    """Up to rounding: inference has loops of its own through small networks."""
    seen = []
    for wiring, speaks in (("--serial_mode=False", "numpy"), ("--serial_mode=True", "torch")):
        vector = CountingVector((2, 3, 5, 11, 999), mode, speaks)
        run = make_vector_run(speaks, vector, "--use_rnn=True", "--recurrence=8", wiring)
        learner, returns = run.components[0], []
        make_targets = learner._targets.estimate
        learner._targets.estimate = lambda *given, r=returns, make=make_targets: r.append(make(*given)) or r[-1]
        run.train(2)
        seen.append(returns[0])
    assert (seen[0].valid == seen[1].valid).all()
    torch.testing.assert_close(seen[1].returns, seen[0].returns, rtol=1e-5, atol=1e-6)


def make_still(*arguments):
    """Make a vector whose rewards do not depend on what is done."""
    vector = CountingVector(*arguments)
    step = vector.step
    vector.step = lambda actions: step(actions * 0)
    return vector


def train_by_hand(run):
    """Train once, with values of 10 everywhere, gamma 0.5 and lambda 1; return returns, advantages and who is valid."""
    learner, received = run.components[0], []
    inference = run.components[2]._network
    for model in (run.trainer.model, inference.model):
        with torch.no_grad():
            model.value_head.weight.zero_()
            model.value_head.bias.fill_(10.0)
    inference.refresh()
    make_targets = learner._targets.estimate
    learner._targets.estimate = lambda *arguments: received.append(make_targets(*arguments)) or received[-1]
    run.train(1)
    returns, advantages, valid = (getattr(received[0], name) for name in ("returns", "advantages", "valid"))
    return [values.view(2, 6).numpy() for values in (returns, advantages, valid > 0)]


BY_HAND = (
    *("--rollout=6", "--batch_size=12", "--num_batches_per_epoch=1", "--gamma=0.5", "--gae_lambda=1.0"),
    *("--normalize_returns=False", "--reward_clip=1000", "--use_rnn=False"),
)  # fmt: skip


def returns_by_hand(mode, behind_cut=5.0):
    """Return the returns of a trajectory of two members; NaN: the step is not trained on.

    Member 0 terminates after two steps, again and again; member 1 is cut off after three. All values are 10, gamma is
    0.5, lambda 1; the reward of the step that leads to step s of an episode is s / 2. So the return of a step is its
    reward and half of what follows: the return of the next step, nothing where the episode terminates, and 10 where it
    is cut off, or where the trajectory ends.

    Args:
        mode: when members begin anew.
        behind_cut: half of what follows where an episode is cut off.
    """
    last = 1.5 + behind_cut
    ends = [0.5 + 0.5 * 1.0, 1.0], [0.5 + 0.5 * (1.0 + 0.5 * last), 1.0 + 0.5 * last, last]
    if mode is AutoresetMode.NEXT_STEP:  # a step in between is not trained on
        first = [*ends[0], None, *ends[0], None]
        second = [*ends[1], None, 0.5 + 0.5 * (1.0 + 5), 1.0 + 5]
    else:
        first, second = [*ends[0]] * 3, [*ends[1]] * 2
    return np.array([first, second], dtype=float)


def assert_by_hand(trained, expected):
    returns, advantages, valid = trained
    assert (valid == ~np.isnan(expected)).all()
    np.testing.assert_allclose(returns[valid], expected[valid], rtol=1e-5)
    np.testing.assert_allclose(advantages[valid], expected[valid] - 10, rtol=1e-5)


WIRINGS = pytest.mark.parametrize("wiring", ["--serial_mode=False", "--serial_mode=True"])


@WIRINGS
@pytest.mark.parametrize("speaks", SPEAKS)
@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_advantages_are_those_computed_by_hand(make_vector_run, mode, speaks, wiring):
    run = make_vector_run("by hand", make_still((2, 3), mode, speaks), *BY_HAND, wiring)
    assert_by_hand(train_by_hand(run), returns_by_hand(mode))


@WIRINGS
@pytest.mark.parametrize("mode", list(AutoresetMode))
@pytest.mark.parametrize(
    "flags",
    [
        ("--use_rnn=True", "--recurrence=6"),
        ("--with_vtrace=True", "--async_rl=True"),
        ("--with_vtrace=True", "--use_rnn=True", "--recurrence=6"),
        ("--value_bootstrap=False",),
        ("--value_bootstrap=False", "--use_rnn=True", "--recurrence=6"),
    ],
    ids=["RNN", "V-trace", "V-trace, RNN", "no bootstrap", "no bootstrap, RNN"],
)
def test_so_they_are_in_other_ways_to_learn(make_vector_run, mode, flags, wiring):
    """V-trace with the weights that sampled is GAE with lambda 1; without value bootstrap nothing follows a cut."""
    run = make_vector_run("by hand", make_still((2, 3), mode, "torch"), *BY_HAND, *flags, wiring)
    assert_by_hand(train_by_hand(run), returns_by_hand(mode, 0.0 if flags[0] == "--value_bootstrap=False" else 5.0))


class MaskedVector(ActingVector):
    """Members who may do one thing each: their number."""

    def __init__(self, **options):
        super().__init__(spaces.Discrete(3), **options)
        masks = {"action_mask": spaces.MultiBinary(3)}
        self.observation_space = spaces.Dict(self.observation_space.spaces | masks)
        of_all = np.eye(3, dtype=np.int8)[: self.num_envs]
        self.memory |= {"action_mask": of_all.copy(), "final_action_mask": of_all.copy()}

    def _returned(self, *keys):
        masks = [key.replace("place", "action_mask") for key in keys if key.endswith("place")]
        return super()._returned(*keys, *masks)


@WIRINGS
@pytest.mark.parametrize("use_rnn", ["False", "True"])
@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_so_they_are_where_actions_are_masked(make_vector_run, mode, use_rnn, wiring):
    vector = MaskedVector(lengths=(2, 3), mode=mode, speaks="torch")
    run = make_vector_run("by hand", vector, *BY_HAND, "--recurrence=6", f"--use_rnn={use_rnn}", wiring)
    assert_by_hand(train_by_hand(run), returns_by_hand(mode))
    assert [np.asarray(actions).tolist() for actions in vector.received] == [[0, 1]] * len(vector.received)
