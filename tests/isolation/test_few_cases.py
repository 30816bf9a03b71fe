from __future__ import annotations

from types import SimpleNamespace

import pytest

from tests.isolation.few_cases import choose_few


def case(name, **params):
    return SimpleNamespace(nodeid=f"{name}[{params}]" if params else name, callspec=SimpleNamespace(params=params))


FAULTS = [case("test_faults", fault=fault, mode=mode) for fault in range(3) for mode in range(2)]
ALONE = SimpleNamespace(nodeid="test_alone")


@pytest.mark.parametrize("num_cases", range(1, 9))
def test_cases_are_those_that_differ_most_and_the_others_stay(num_cases):
    found = choose_few([ALONE, *FAULTS], num_cases)
    assert found == [ALONE, *(case for case in FAULTS if case in found)], "in their order"
    assert found == choose_few([ALONE, *FAULTS], num_cases), "the same ones each time"
    params = [case.callspec.params for case in found[1:]]
    assert len(params) == min(num_cases, 6)
    assert len({each["mode"] for each in params}) == min(num_cases, 2)
    assert len({each["fault"] for each in params}) == min(num_cases, 3)


def test_which_case_is_tried_alone_differs_from_test_to_test():
    tests = [[case(f"test_{name}", mode=mode) for mode in range(2)] for name in range(20)]
    found = choose_few([case for cases in tests for case in cases], 1)
    assert len(found) == 20 and {each.callspec.params["mode"] for each in found} == {0, 1}


@pytest.mark.parametrize("mode", ["parallel", "serial"])
@pytest.mark.parametrize("fault", ["kill", "hang"])
def test_what_pytest_collects_has_the_values_of_its_parameters(request, mode, fault):
    assert request.node.callspec.params == {"mode": mode, "fault": fault}
