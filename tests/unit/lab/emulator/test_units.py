"""Jobs of part of a node, of several units a node, of GPUs, and any number of them on one node."""

from dataclasses import replace
from typing import Any

import pytest
from coplace.v1.control_pb2 import ClusterDeclared
from coplace.v1.jobs_pb2 import JobFinished, JobStarted, JobSubmitted
from coplace.v1.placement_pb2 import PlacedPart, PlacementDecided
from coplace.v1.telemetry_pb2 import ShuttersMeasured, SignatureMeasured
from hypothesis import given, settings
from hypothesis import strategies as st

from coplace_client.errors import UnusableError
from lab.emulator.emulator import Emulator, RoundOutput
from lab.emulator.feasibility import ImpossibleDecisionError
from lab.emulator.machine import Machine
from lab.emulator.running import EmulatedUnits, RunningJob
from lab.emulator.truth.interference import slowdown_ratio
from lab.emulator.truth.laws import behaviour
from lab.emulator.truth.noise import Noise
from lab.workloads.request import JobRequest
from lab.workloads.table1 import profile
from shared.domain.cluster import NodeClass
from shared.domain.partition import Partition
from shared.domain.parts import JobPart
from shared.scheduling.progress import Progress
from tests.unit.lab.emulator.runs import (
    CLUSTERS,
    P1,
    P2,
    in_round_one,
    payloads,
    ran,
    request,
    start,
    to_the_end,
)

GPUS = NodeClass(4, 384.0, (("gpu", 2),))
MIXED = (replace(P1, declared_classes=(NodeClass(12, 192.0), GPUS)), P2)
STREAM = profile("STREAM", P1.node_model)


def quarter(index: int, **changes: Any) -> JobRequest:
    """A job of one unit of a quarter of a node of p1, that shares it."""
    values = {"nodes": 1, "cores_per_unit": 12, "shareable": True, **changes}
    return request(index, **values)


def on_node(job: JobSubmitted, node: int, *beside: JobSubmitted, **changes: Any) -> Any:
    """The start of a quarter beside others."""
    named = [other.job_id for other in beside]
    values = {
        "node_indices": [node],
        "cores_per_node": 12,
        "co_runner_job_ids": named,
        "co_runner_job_id": named[0] if named else "",
        **changes,
    }
    return start(job, **values)


def runtimes_s(outputs: Any) -> dict[str, float]:
    ended = payloads(outputs, JobFinished)
    return {f.job_id: (f.ended_at_us - f.started_at_us) / 1e6 for f in ended}


def test_quarters_of_a_node_slow_each_other_down_by_all_demands_but_signatures_are_solo() -> None:
    requests = [quarter(n, repetitions=20.0 if n == 0 else 5.0) for n in range(4)]
    emulator, jobs = in_round_one(*requests)
    emulator.apply([on_node(job, 3, *jobs[:n]) for n, job in enumerate(jobs)])

    outputs = to_the_end(emulator)

    gbps = STREAM.mem_gbps / 4
    slow = slowdown_ratio(gbps, 3 * gbps)
    assert slow > slowdown_ratio(gbps, gbps)
    ran_s = runtimes_s(outputs)
    for job in jobs[1:]:
        assert ran_s[job.job_id] == pytest.approx(5 * STREAM.time_s * slow, rel=0.05)
    assert ran_s[jobs[0].job_id] == pytest.approx(STREAM.time_s * (5 * slow + 15), rel=0.05)
    for ended in payloads(outputs, JobFinished):
        assert (ended.nodes, ended.cores_per_node, ended.cores) == (1, 12, 12)
    for signature in payloads(outputs, SignatureMeasured):
        assert signature.time_s == pytest.approx(STREAM.time_s, rel=0.05)


def test_thousandths_of_a_core_fill_a_node_to_the_last_and_are_reported_as_they_are() -> None:
    third = {"nodes": 3, "cores_per_unit": 6, "millicores_per_unit": 5_500}
    emulator, [wide, narrow] = in_round_one(
        quarter(0, **third), quarter(1, cores_per_unit=32, millicores_per_unit=31_501)
    )
    unit = {"cores_per_node": 6, "millicores_per_unit": 5_500}
    with pytest.raises(ImpossibleDecisionError, match=r"uses 5\.5 cores a unit on p1, got 6"):
        emulator.apply([start(wide, node_indices=[3], node_units=[3], cores_per_node=6)])
    emulator.apply([start(wide, node_indices=[3], node_units=[3], **unit)])
    beside = on_node(narrow, 3, wide, cores_per_node=32, millicores_per_unit=31_501)
    with pytest.raises(ImpossibleDecisionError, match=r"48\.001 cores of 48"):
        emulator.apply([beside])
    elsewhere = on_node(narrow, 4, cores_per_node=32, millicores_per_unit=31_501)
    emulator.apply([elsewhere])
    ended = {each.job_id: each for each in payloads(to_the_end(emulator), JobFinished)}
    whole, alone = ended[wide.job_id], ended[narrow.job_id]
    assert (whole.nodes, whole.cores_per_node, whole.cores, whole.millicores) == (1, 17, 17, 16_500)
    assert (alone.cores, alone.millicores) == (32, 31_501)


def test_shutters_name_each_neighbour_and_end_with_each_change() -> None:
    emulator, jobs = in_round_one(*(quarter(n, repetitions=5.0 * (n + 1)) for n in range(3)))
    emulator.apply([on_node(job, 3, *jobs[:n]) for n, job in enumerate(jobs)])

    measured = payloads(to_the_end(emulator), ShuttersMeasured)

    of_last = [m for m in measured if m.job_id == jobs[2].job_id]
    named = [[job.job_id for job in jobs].index(m.co_runner_job_id) for m in of_last]
    assert named == [0, 1, 1]
    assert [m.co_runners for m in of_last] == [2, 2, 1]
    assert of_last[0].ended_at_us == of_last[1].ended_at_us == of_last[2].began_at_us
    assert {m.core_share for m in measured} == {0.25}
    gbps = STREAM.mem_gbps / 4
    for seen, others in zip(of_last, (2, 2, 1), strict=True):
        during = sum(s.ipc_during for s in seen.shutters)
        beside = sum((s.ipc_before + s.ipc_after) / 2 for s in seen.shutters)
        expected = slowdown_ratio(gbps, others * gbps)
        assert during / beside == pytest.approx(expected, rel=0.03)


def test_a_job_on_several_nodes_is_as_slow_as_on_the_worst_of_them() -> None:
    calm = quarter(1, app_id="ep.D", repetitions=40.0)
    wide = quarter(0, nodes=2, units_per_node=1, repetitions=5.0)
    emulator, jobs = in_round_one(wide, calm, quarter(2, repetitions=40.0))
    across = on_node(jobs[0], 3, jobs[1], jobs[2], node_indices=[3, 4], node_units=[1, 1])
    emulator.apply([on_node(jobs[1], 3), on_node(jobs[2], 4), across])

    outputs = to_the_end(emulator)

    gbps = STREAM.mem_gbps / 4
    expected_s = 5 * STREAM.time_s * slowdown_ratio(gbps, gbps)
    assert runtimes_s(outputs)[jobs[0].job_id] == pytest.approx(expected_s, rel=0.05)
    [by_calm, by_hungry] = [
        m for m in payloads(outputs, ShuttersMeasured) if m.job_id == jobs[0].job_id
    ]
    assert (by_calm.co_runner_app_id, by_hungry.co_runner_app_id) == ("ep.D", "STREAM")
    assert by_calm.co_runners == by_hungry.co_runners == 1


def test_several_units_a_node_are_reported_and_counted() -> None:
    wide = request(0, nodes=5, cores_per_unit=12, shareable=False)
    outputs = ran(wide, node_indices=[3, 7], node_units=[4, 1], cores_per_node=12)

    [started], [ended] = payloads(outputs, JobStarted), payloads(outputs, JobFinished)
    assert list(started.node_units) == [4, 1]
    assert (ended.nodes, ended.cores_per_node, ended.cores) == (2, 48, 60)
    runtime_s = (ended.ended_at_us - ended.started_at_us) / 1e6
    energy_j = STREAM.power_w * 1.25 * runtime_s
    assert ended.energy_j == pytest.approx(energy_j, rel=0.08)


def test_node_classes_are_declared_and_what_a_job_held_of_them_is_reported() -> None:
    gpus = request(0, nodes=3, cores_per_unit=24, resources_per_unit=(("gpu", 1),))
    emulator, [job] = in_round_one(gpus, clusters=MIXED)
    emulator.apply([start(job, node_indices=[12, 15], node_units=[2, 1], cores_per_node=24)])
    [ended] = payloads(to_the_end(emulator), JobFinished)
    assert dict(job.resources_per_unit) == {"gpu": 1}
    assert dict(ended.resources) == {"gpu": 3}
    [declared, _] = payloads([Emulator([], MIXED, 1).next_round()], ClusterDeclared)
    assert [(c.nodes, c.memory_gib, dict(c.resources)) for c in declared.node_classes] == [
        (12, 192.0, {}),
        (4, 384.0, {"gpu": 2}),
    ]


UNITS: dict[str, Any] = {"nodes": 2, "cores_per_unit": 12, "units_per_node": 2}


@pytest.mark.parametrize(
    ("asked", "decided", "problem"),
    [
        (UNITS, {"node_units": [1, 2]}, "asked for 2 units, got 3"),
        (UNITS, {"node_units": [2, 0]}, "asked for 2 units"),
        (UNITS, {"node_units": [1]}, "gives the units of 1 nodes, got 2"),
        (
            UNITS | {"units_per_node": 1},
            {"node_indices": [3], "node_units": [2]},
            "1 units on one node, got 2",
        ),
        (UNITS, {"cores_per_node": 24}, "12 cores a unit"),
        (
            UNITS | {"units_per_node": 0, "nodes": 5},
            {"node_indices": [3], "node_units": [5]},
            "p1-0003 has not so much free: it would give 60 cores of 48",
        ),
        (
            UNITS | {"memory_gib_per_unit": 100.0},
            {"node_indices": [3], "node_units": [2]},
            "p1-0003 .* 200 GiB of 192",
        ),
        (UNITS | {"resources_per_unit": (("gpu", 1),)}, {}, "p1-0003 .* 1 gpu of 0"),
        (
            UNITS | {"resources_per_unit": (("gpu", 2),)},
            {"node_indices": [14], "node_units": [2]},
            "p1-0014 .* 4 gpu of 2",
        ),
        (
            {"nodes": 2, "memory_gib_per_unit": 300.0},
            {"cores_per_node": 48, "node_indices": [3, 13]},
            "p1-0003 .* 300 GiB of 192",
        ),
        (
            {"nodes": 2, "shareable": True, "memory_gib_per_unit": 150.0},
            {"cores_per_node": 24, "node_indices": [11, 12], "co_runner_job_id": "demo/p1/9/9"},
            "does not run",
        ),
    ],
)
def test_units_that_their_nodes_cannot_hold_are_refused_by_name(
    asked: dict[str, Any], decided: dict[str, Any], problem: str
) -> None:
    emulator, [job] = in_round_one(request(**asked), clusters=MIXED)
    with pytest.raises(ImpossibleDecisionError, match=problem):
        emulator.apply([start(job, **({"cores_per_node": 12} | decided))])


def test_who_does_not_share_has_its_nodes_alone_whatever_part_it_uses() -> None:
    emulator, [alone, guest] = in_round_one(quarter(0, shareable=False), quarter(1))
    emulator.apply([on_node(alone, 3)])
    with pytest.raises(ImpossibleDecisionError, match="must all be shareable"):
        emulator.apply([on_node(guest, 3, alone)])
    emulator.apply([on_node(guest, 4)])


def test_all_co_runners_are_named_the_first_first() -> None:
    emulator, [a, b, c] = in_round_one(*(quarter(n) for n in range(3)))
    emulator.apply([on_node(a, 3), on_node(b, 3, a)])
    with pytest.raises(ImpossibleDecisionError, match="names 1 of its 2 co-runners"):
        emulator.apply([on_node(c, 3, a)])
    with pytest.raises(ImpossibleDecisionError, match="not as the first"):
        emulator.apply([on_node(c, 3, a, b, co_runner_job_id=b.job_id)])
    emulator.apply([on_node(c, 3, a, b)])


def test_a_half_node_holds_half_of_the_memory_beside_a_quarter() -> None:
    half, large = request(0, nodes=1, shareable=True), quarter(1, memory_gib_per_unit=120.0)
    emulator, [first, second] = in_round_one(half, large, clusters=MIXED)
    emulator.apply([start(first, node_indices=[3])])
    with pytest.raises(ImpossibleDecisionError, match="216 GiB of 192"):
        emulator.apply([on_node(second, 3, first)])


@pytest.mark.parametrize(
    "asked",
    [
        {"nodes": 17},
        {"nodes": 65, "cores_per_unit": 12},
        {"nodes": 17, "cores_per_unit": 12, "units_per_node": 1},
        {"nodes": 9, "cores_per_unit": 12, "resources_per_unit": (("gpu", 1),)},
        {"nodes": 1, "cores_per_unit": 49},
        {"nodes": 1, "resources_per_unit": (("fpga", 1),)},
        {"nodes": 5, "memory_gib_per_unit": 200.0, "reference_cluster": "p1"},
    ],
)
def test_a_request_whose_units_no_cluster_holds_is_refused_at_once(asked: dict[str, Any]) -> None:
    only_p1 = MIXED[:1]
    with pytest.raises(UnusableError, match="bigger than every cluster"):
        Emulator([request(**asked)], only_p1, 1)


class _Node:
    """One node and the jobs that start on it and leave it, as the emulator publishes them."""

    def __init__(self) -> None:
        self.machine = Machine(P1, Noise(1))
        self.running: dict[str, RunningJob] = {}

    def come(self, number: int, app_id: str, cores: int, now_us: int) -> RunningJob | None:
        """A job starts where there are cores for it."""
        asked = quarter(number, app_id=app_id, cores_per_unit=cores)
        solo = behaviour(profile(app_id, P1.node_model), self.machine.model, 2.7)
        run = RunningJob(
            job_id=f"job-{number:03d}",
            request=asked,
            machine=self.machine,
            allocation=EmulatedUnits((0,), (1,), cores * 1000, 2.7),
            started_us=now_us,
            solo=solo,
            progress=Progress(1e6),
            deadline_us=None,
        )
        if self.machine.lacks(0, run.shares[0]):
            return None
        self.machine.take(run.job_id, run.shares)
        self.running[run.job_id] = run
        self.settle(now_us)
        return run

    def leave(self, run: RunningJob, now_us: int) -> float:
        """A job ends; its energy."""
        self.machine.release(run.job_id, (0,))
        del self.running[run.job_id]
        run.settle(now_us, {})
        self.settle(now_us)
        return run.energy_j(now_us)

    def settle(self, now_us: int) -> None:
        """Give every job its neighbours."""
        for run in self.running.values():
            run.settle(now_us, {0: [o for o in self.running.values() if o is not run]})


def _metered_j(run: RunningJob, until_us: int) -> float:
    """What the meter of its node counted while it ran."""
    ends = [time_us for time_us, _ in run.meter[1:]] + [until_us]
    readings = zip(run.meter, ends, strict=True)
    return sum(power_w * (end - begin) / 1e6 for (begin, power_w), end in readings)


apps = st.sampled_from(["STREAM", "ep.D", "DGEMM", "ua.C"])


@settings(max_examples=50)
@given(st.lists(st.tuples(apps, st.integers(1, 24), st.integers(1, 10**9)), max_size=12))
def test_the_energies_of_all_jobs_on_a_node_and_its_idle_cores_add_up_to_the_meter(
    jobs: list[tuple[str, int, int]],
) -> None:
    """The unallocated idle is the operator's; a job that is there all the time reads the meter."""
    node, now_us = _Node(), 1_000_000
    reader = node.come(0, "ep.D", 1, now_us)
    assert reader is not None
    there, energies_j, idle_core_s = [reader], [], 0.0
    for number, (app_id, cores, gap_us) in enumerate(jobs, start=1):
        idle_core_s += (48 - sum(run.allocation.millicores for run in there) / 1000) * gap_us / 1e6
        now_us += gap_us
        run = node.come(number, app_id, cores, now_us)
        if run is not None:
            there.append(run)
        elif len(there) > 1:
            energies_j.append(node.leave(there.pop(1), now_us))
    energies_j += [node.leave(run, now_us) for run in reversed(there[1:])]
    energies_j.append(reader.energy_j(now_us))
    factor = float(node.machine.power_factors([0])[0])
    idle_j = P1.idle_power_w * factor * idle_core_s / 48
    assert sum(energies_j) + idle_j == pytest.approx(_metered_j(reader, now_us))


def test_a_run_of_quarters_replayed_from_its_decisions_says_the_same_in_any_order() -> None:
    requests = [quarter(n, repetitions=3.0 + n % 5, submit_s=40.0 * n) for n in range(8)]

    def said(in_order: bool) -> list[RoundOutput]:
        emulator, outputs = Emulator(requests, CLUSTERS, 1), list[RoundOutput]()
        while not emulator.finished:
            outputs.append(emulator.next_round())
            decisions = _four_a_node(outputs)
            emulator.apply(decisions if in_order else decisions[::-1])
        return outputs

    outputs = said(in_order=True)
    assert outputs == said(in_order=False)
    assert max(m.co_runners for m in payloads(outputs, ShuttersMeasured)) == 3


def _four_a_node(outputs: list[RoundOutput]) -> list[PlacementDecided]:
    """Whoever was submitted in the last round starts beside who is on its node, four at most."""
    jobs = payloads(outputs, JobSubmitted)
    ended = {finished.job_id for finished in payloads(outputs, JobFinished)}
    decisions = []
    for job in payloads(outputs[-1:], JobSubmitted):
        number = jobs.index(job)
        first = number - number % 4
        there = [other for other in jobs[first:number] if other.job_id not in ended]
        decisions.append(on_node(job, first, *there, round=outputs[-1].round.number))
    return decisions


@pytest.mark.parametrize(
    ("nodes", "problem"),
    [([3], "is to be in one of debug"), ([0, 3], "is to be in one of debug"), ([2], "needs nodes")],
)
def test_a_job_on_nodes_of_another_partition_or_without_its_feature_is_refused(
    nodes: list[int], problem: str
) -> None:
    partition = Partition("debug", (f"{P1.name}-[0000-0002]",))
    classes = NodeClass(2, features=("ib",)), NodeClass(P1.nodes - 2)
    on = (replace(P1, partitions=(partition,), declared_classes=classes), P2)
    asked = request(0, nodes=len(nodes), partitions=("debug",), features="ib")
    emulator, [job] = in_round_one(asked, clusters=on)
    with pytest.raises(ImpossibleDecisionError, match=problem):
        emulator.apply([start(job, node_indices=nodes)])
    emulator, [job] = in_round_one(replace(asked, nodes=1), clusters=on)
    emulator.apply([start(job, node_indices=[1])])


def gang(index: int, *parts: JobPart, **changes: Any) -> JobRequest:
    nodes = sum(part.nodes for part in parts)
    return request(index, nodes=nodes, shareable=False, parts=parts, **changes)


@pytest.mark.parametrize(
    ("placed", "problem"),
    [
        ([], "has parts of"),
        ([[3], [4]], "has parts of"),
        ([[3], [4, 6]], "for its parts"),
        ([[5], [3, 4]], "needs nodes with large"),
    ],
)
def test_a_gang_is_not_started_on_nodes_that_do_not_fit_its_parts(
    placed: list[list[int]], problem: str
) -> None:
    large = replace(
        P1, declared_classes=(NodeClass(4, 192.0, features=("large",)), NodeClass(12, 192.0))
    )
    asked = gang(0, JobPart(1, features="large"), JobPart(2))
    emulator, [job] = in_round_one(asked, clusters=(large, P2))
    right = start(job, node_indices=[3, 4, 5], parts=_placed([[3], [4, 5]]))
    wrong = start(job, node_indices=[3, 4, 5], parts=_placed(placed))
    with pytest.raises(ImpossibleDecisionError, match=problem):
        emulator.apply([wrong])
    emulator.apply([right])


def _placed(parts: list[list[int]]) -> list[PlacedPart]:
    return [PlacedPart(node_indices=nodes) for nodes in parts]
