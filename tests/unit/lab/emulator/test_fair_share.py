"""Emulated resource managers order their queues by what their users have."""

from coplace.v1.jobs_pb2 import JobsReordered, JobSubmitted

from lab.emulator.emulator import Emulator
from tests.unit.lab.emulator.runs import in_round_one, payloads, request, start


def reordered(emulator: Emulator) -> list[JobsReordered]:
    return payloads([emulator.next_round()], JobsReordered)


def submitted(fair_share_every_s: float) -> tuple[Emulator, list[JobSubmitted]]:
    """One job is short, one long, and a third waits of the user of the long one."""
    longer = request(1, repetitions=50.0, user="user02")
    jobs = [request(0), longer, request(2, user="user02")]
    return in_round_one(*jobs, fair_share_every_s=fair_share_every_s)


def test_a_user_with_nodes_gets_a_lower_priority_in_one_message() -> None:
    emulator, jobs = submitted(60.0)
    assert {job.manager_priority for job in jobs} == {1_000_000}
    emulator.apply([start(jobs[0]), start(jobs[1], node_indices=[5, 6])])
    [said] = reordered(emulator)
    assert ([*said.job_ids], [*said.manager_priorities]) == ([jobs[2].job_id], [1_000_000 // 3])
    assert (said.manager, [*said.clusters]) == ("demo/p1", ["p1"])


def test_managers_that_look_never_give_no_priority() -> None:
    emulator, jobs = submitted(0.0)
    assert {job.manager_priority for job in jobs} == {0}
    emulator.apply([start(jobs[0])])
    assert reordered(emulator) == []
