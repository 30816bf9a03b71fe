"""The InferenceWorker: everybody gets an action of the right policy, in the right place, of the newest weights."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

POLICY_OF_ROW = (0, 1, 0, 1, 0, 1)


class Inference:
    """An InferenceWorker of policy 0 in a run of two policies and three groups, and the other ends of its channels."""

    def __init__(self, blueprint, worker):
        self.blueprint, self.worker = blueprint, worker
        self.memory, self.channels = blueprint.trajectories, blueprint.channels
        rng = np.random.default_rng(0)
        self.memory.observations["obs"][:] = rng.uniform(-1, 1, self.memory.observations["obs"].shape)
        self.memory.row_slot[:] = self.slots = [worker_slots(blueprint, row) for row in range(blueprint.plan.num_rows)]
        self.learner_model = copy.deepcopy(worker._network.model)

    def publish(self, version, scale=1.0):
        with torch.no_grad():
            for parameter in self.learner_model.parameters():
                parameter.mul_(scale)
        self.blueprint.weights[0].publish(self.learner_model.state_dict(), version)

    def begin(self):
        self.publish(0)
        self.worker.inputs()[0].handle([0])

    def request(self, *groups):
        self.worker.inputs()[1].handle(list(groups))

    def expected(self, slots, steps):
        """Return what the network says of observations and states in the memory."""
        observations = {"obs": torch.from_numpy(self.memory.observations["obs"][slots, steps])}
        states = torch.from_numpy(self.memory.states[slots, steps])
        with torch.no_grad():
            return self.learner_model(self.learner_model.normalize(observations), states)


def worker_slots(blueprint, row):
    group = next(group for group in blueprint.plan.groups if row in group.rows)
    policy = group.policies[row - group.rows.start]
    own = [r for r in range(row) if POLICY_OF_ROW[r] == policy and r in range(group.worker * 4, group.worker * 4 + 4)]
    return blueprint.plan.worker_slots[group.worker][policy][len(own)]


@pytest.fixture
def make_inference(make_blueprint, make_component):
    def make(*flags):
        torch.manual_seed(5)
        blueprint = make_blueprint("--num_policies=2", "--num_workers=2", "--num_envs_per_worker=3", *flags)
        worker, _ = make_component(blueprint, "InferenceWorker_p0-w0")
        return Inference(blueprint, worker)

    return make


@pytest.fixture(params=[False, True], ids=["feed-forward", "recurrent"])
def inference(make_inference, request):
    return make_inference(f"--use_rnn={request.param}")


def rows_of(inference, *groups):
    return [
        row
        for group in groups
        for row, policy in zip(
            inference.blueprint.plan.groups[group].rows, inference.blueprint.plan.groups[group].policies, strict=True
        )
        if policy == 0
    ]


def test_requests_wait_for_the_first_weights(inference):
    assert inference.worker.wait_block() == "wait_policy"
    inference.request(0)
    inference.request(1)
    assert inference.channels.actions[0].receive() == []
    inference.begin()
    assert [channel.receive() for channel in inference.channels.actions] == [[0], [1]]
    assert inference.worker.wait_block() == "wait_rollout_workers"


def test_first_weights_without_any_request_are_fine(inference):
    inference.begin()
    assert [channel.receive() for channel in inference.channels.actions] == [[], []]


def test_outputs_land_in_the_slots_of_the_policys_rows_at_the_step_of_their_group(inference):
    inference.begin()
    inference.memory.group_step[:] = (2, 3)
    inference.memory.states[:] = np.random.default_rng(1).normal(size=inference.memory.states.shape)
    before = {name: getattr(inference.memory, name).copy() for name in ("actions", "values", "states")}
    inference.memory.policy_versions[:] = -7
    inference.request(1, 0)

    rows = rows_of(inference, 1, 0)
    slots = inference.memory.row_slot[rows]
    steps = np.array([3 if row >= 3 else 2 for row in rows])
    parameters, values, states = inference.expected(slots, steps)
    memory = inference.memory
    np.testing.assert_allclose(memory.action_parameters[slots, steps], parameters, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(memory.values[slots, steps], values, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(memory.states[slots, steps + 1], states, rtol=1e-5, atol=1e-6)
    actions = memory.actions[slots, steps]
    assert ((actions >= 0) & (actions < 4)).all()
    log_probabilities = torch.log_softmax(parameters, -1).gather(-1, torch.from_numpy(actions))[:, 0]
    np.testing.assert_allclose(memory.log_probabilities[slots, steps], log_probabilities, rtol=1e-4, atol=1e-5)

    written = np.zeros(memory.policy_versions.shape, bool)
    written[slots, steps] = True
    assert ((memory.policy_versions == 0) == written).all(), "nothing else was touched"
    assert (memory.policy_versions[~written] == -7).all()
    assert (memory.actions[~written] == before["actions"][~written]).all()
    assert (memory.values[~written] == before["values"][~written]).all()


def test_the_worker_of_each_group_is_told(inference):
    inference.begin()
    inference.request(1, 0, 1)
    assert [channel.receive() for channel in inference.channels.actions] == [[0], [1, 1]]


def test_a_worker_gets_one_message_for_all_its_groups(inference, monkeypatch):
    inference.begin()
    messages = []
    for worker, channel in enumerate(inference.channels.actions):
        monkeypatch.setattr(channel, "send", lambda groups, worker=worker: messages.append((worker, list(groups))))
    inference.request(1, 0, 1)
    assert messages == [(1, [1, 1]), (0, [0])]


def test_the_version_of_the_weights_may_have_any_number_of_steps(inference):
    inference.publish(2**40)
    inference.worker.inputs()[0].handle([0])
    inference.request(0)
    slots = inference.memory.row_slot[rows_of(inference, 0)]
    assert inference.memory.policy_versions[slots, 0].tolist() == [2**40] * len(slots)


def test_newly_published_weights_are_used_from_the_next_request_on(inference):
    inference.begin()
    inference.request(0)
    inference.publish(17, scale=2.0)
    inference.memory.group_step[:] = 1
    inference.request(0)
    slots = inference.memory.row_slot[rows_of(inference, 0)]
    assert inference.memory.policy_versions[slots, 0].tolist() == [0] * len(slots)
    assert inference.memory.policy_versions[slots, 1].tolist() == [17] * len(slots)
    _, values, _ = inference.expected(slots, np.ones(len(slots), int))
    np.testing.assert_allclose(inference.memory.values[slots, 1], values, rtol=1e-5, atol=1e-6)


def test_values_of_final_observations_are_computed_along_and_stored_at_the_end_they_belong_to(inference):
    inference.begin()
    memory, row = inference.memory, rows_of(inference, 0)[1]
    slot = memory.row_slot[row]
    rng = np.random.default_rng(2)
    memory.final_observations["obs"][row] = rng.uniform(-1, 1, 3)
    memory.final_states[row] = rng.normal(size=memory.final_states.shape[1])
    memory.final_step[row] = 2  # truncated at step 1
    other = rows_of(inference, 1)[0]
    memory.final_step[other] = 3  # of a group that does not ask now
    memory.final_values[:] = -99
    memory.group_step[0] = 2
    inference.request(0)

    model = inference.learner_model
    with torch.no_grad():
        normalized = model.normalize({"obs": torch.from_numpy(memory.final_observations["obs"][[row]])})
        _, value, _ = model(normalized, torch.from_numpy(memory.final_states[[row]]))
    np.testing.assert_allclose(memory.final_values[slot, 1], value.item(), rtol=1e-5, atol=1e-6)
    assert (memory.final_values != -99).sum() == 1
    assert memory.final_step[row] == 0
    assert memory.final_step[other] == 3
    # The actions are those without final observations.
    slots = memory.row_slot[rows_of(inference, 0)]
    parameters, values, _ = inference.expected(slots, np.full(len(slots), 2))
    np.testing.assert_allclose(memory.values[slots, 2], values, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(memory.action_parameters[slots, 2], parameters, rtol=1e-5, atol=1e-6)


def test_the_same_seed_draws_the_same_actions(make_inference):
    drawn = []
    for _ in range(2):
        inference = make_inference()
        inference.begin()
        for step in range(4):
            inference.memory.group_step[:] = step
            inference.request(0, 1)
        drawn.append(inference.memory.actions.copy())
    assert (drawn[0] == drawn[1]).all()
    assert len(np.unique(drawn[0])) > 1


def test_gauges_and_tree_tell_of_batches(inference):
    inference.begin()
    inference.request(0, 1)
    inference.request(0)
    num_rows = len(rows_of(inference, 0, 1, 0))
    batches = {"batch_rows": num_rows / 2, "inference_batches": 2, "inference_rows": num_rows}
    assert inference.worker.gauges() == batches | {"policy_version": 0, "num_threads": torch.get_num_threads()}
    blocks = {"update_model", "weight_update", "handle_policy_step", "deserialize", "stack", "forward", "to_cpu"}
    assert blocks <= set(inference.worker.timing)
    assert inference.worker.name == "InferenceWorker_p0-w0"


def test_what_a_lost_worker_has_asked_for_is_dropped_and_others_are_answered(make_inference):
    inference = make_inference()
    inference.begin()
    group_of = {group.worker: group.index for group in inference.blueprint.plan.groups}
    inference.channels.requests[0][0].send([group_of[1], group_of[0]])
    inference.worker.forget_worker(0)
    assert [channel.receive() for channel in inference.channels.actions] == [[], [group_of[1]]]
    assert inference.channels.requests[0][0].receive() == []


def test_requests_of_a_lost_worker_that_wait_for_the_first_weights_are_dropped_too(make_inference):
    inference = make_inference()
    group_of = {group.worker: group.index for group in inference.blueprint.plan.groups}
    inference.request(group_of[0], group_of[1])
    inference.worker.forget_worker(0)
    inference.begin()
    assert [channel.receive() for channel in inference.channels.actions] == [[], [group_of[1]]]


def test_inference_that_comes_when_there_are_weights_need_not_wait_for_a_message(make_inference):
    inference = make_inference()
    inference.publish(7)
    assert inference.worker.wait_block() == "wait_policy"
    inference.worker.start()
    assert inference.worker.wait_block() == "wait_rollout_workers"
    assert inference.worker.gauges()["policy_version"] == 7
