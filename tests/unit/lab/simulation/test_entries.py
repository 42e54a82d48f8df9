import numpy as np
import pytest

from lab.simulation.entries import Entries, PolicyChoice, entries_of
from lab.simulation.epm import Epm
from lab.simulation.jobs import SubmittedJobs
from lab.simulation.policy import SimulatedPolicy
from lab.simulation.system import SizeUnit, System
from shared.eamc.frequency import EVEN
from shared.scheduling.workload import NO_ENTRY
from tests.unit.lab.simulation.setups import cluster, jobs, models

CPU, MEM = 0, 1
EPM = Epm.from_models([models("p1"), models("p2")])
TWO = System((cluster("p1"), cluster("p2")))


def entries(
    policy: SimulatedPolicy,
    apps: list[int],
    system: System = TWO,
    submitted: SubmittedJobs | None = None,
    *,
    kill: bool = True,
) -> Entries:
    several = submitted or jobs([1] * len(apps))
    return entries_of(system, EPM, several, np.array(apps), PolicyChoice(policy, EVEN, 0.35, kill))


@pytest.mark.parametrize(
    ("policy", "order"),
    [
        (SimulatedPolicy.MIN_RUNTIME, [[0, 1], [2, 3]]),
        (SimulatedPolicy.REORDER, [[0, 1], [3, 2]]),
        (SimulatedPolicy.PRIORITY_INC, [[0, 2], [3, 1]]),
        (SimulatedPolicy.EASY, [[0, 1], [2, 3]]),
    ],
)
def test_the_order_of_entries_is_the_policys(
    policy: SimulatedPolicy, order: list[list[int]]
) -> None:
    assert entries(policy, [CPU, MEM]).workload.order.tolist() == order


def test_times_and_power_are_those_of_the_application_on_each_cluster_that_is_offered() -> None:
    order = entries(SimulatedPolicy.BASE, [CPU, MEM]).workload.order
    assert (order != NO_ENTRY).tolist() == [[True, False], [False, True]], "the best one alone"
    work = entries(SimulatedPolicy.EASY, [CPU], submitted=jobs([3])).workload
    assert work.run_s == pytest.approx(np.array([[100, 150]]))
    assert work.limit_s == pytest.approx(np.array([[200, 300]]))
    assert work.power_w == pytest.approx(np.array([[900, 900]]))


def test_a_job_that_outran_its_request_is_killed_then_or_runs_on() -> None:
    late = jobs([1])
    object.__setattr__(late.jobs, "requested_s", np.array([60.0]))
    assert entries(SimulatedPolicy.EASY, [CPU], submitted=late).workload.run_s[0, 0] == 60
    running_on = entries(SimulatedPolicy.EASY, [CPU], submitted=late, kill=False)
    assert running_on.workload.run_s[0, 0] == 100


def test_a_job_has_no_entry_where_it_does_not_fit_and_is_counted_where_it_fits_nowhere() -> None:
    system = System((cluster("p1", nodes=2), cluster("p2", nodes=4)))
    found = entries(SimulatedPolicy.EASY, [CPU] * 3, system, jobs([1, 3, 5]))
    assert found.left_out == 1
    assert found.job_id.tolist() == [1, 2]
    assert (found.workload.order != NO_ENTRY).tolist() == [[True, True], [False, True]]
    assert found.traits.best.tolist() == [0, 1]
    with pytest.raises(ValueError, match="no job fits on any cluster"):
        entries(SimulatedPolicy.EASY, [CPU], submitted=jobs([9]))


def test_a_job_has_no_entry_where_it_alone_would_break_a_cap() -> None:
    system = System((cluster("p1", cap_w=500.0), cluster("p2")))
    found = entries(SimulatedPolicy.EASY, [CPU], system, jobs([2]))
    assert (found.workload.order != NO_ENTRY).tolist() == [[False, True]]
    clusters = cluster("p1", site="north"), cluster("p2")
    system = System(clusters, shared_cap_w={"north": 500.0, "region": 800.0})
    found = entries(SimulatedPolicy.EASY, [CPU] * 3, system, jobs([1, 2, 3]))
    assert (found.workload.order != NO_ENTRY).tolist() == [[True, True], [False, True]]
    assert found.left_out == 1


def test_a_job_takes_cores_and_their_share_of_the_power_or_whole_nodes() -> None:
    system = System((cluster("p1", cores_per_node=4, unit=SizeUnit.CORE), cluster("p2")))
    work = entries(SimulatedPolicy.EASY, [CPU], system, jobs([2])).workload
    assert work.units.tolist() == [[8, 2]]
    few = entries(SimulatedPolicy.EASY, [CPU], system, jobs([3], counts=SizeUnit.CORE)).workload
    assert few.units.tolist() == [[3, 3]]
    assert few.power_w[0, 0] == pytest.approx(300 * 3 / 4)
    whole = System((cluster("p1", cores_per_node=4), cluster("p2", cores_per_node=4)))
    several = jobs([1, 4, 5], counts=SizeUnit.CORE)
    found = entries(SimulatedPolicy.EASY, [CPU] * 3, whole, several).workload
    assert found.units[:, 0].tolist() == [1, 1, 2]
