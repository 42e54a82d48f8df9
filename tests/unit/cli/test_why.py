"""What `coplace why` prints, word for word: it is read at night."""

from typing import Any

import pytest
from coplace.v1.jobs_pb2 import (
    JOB_OUTCOME_CANCELLED,
    JOB_OUTCOME_FAILED,
    JOB_OUTCOME_TIMED_OUT,
)
from coplace.v1.placement_pb2 import (
    CONSTRAINT_KIND_CAPACITY,
    CONSTRAINT_KIND_MISFIT,
    CONSTRAINT_KIND_POWER_BUDGET,
    Candidate,
    Constraint,
    Misfit,
    Reservation,
)
from coplace.v1.placement_service_pb2 import (
    JOB_STANDING_DECIDED,
    JOB_STANDING_FINISHED,
    JOB_STANDING_REJECTED,
    JOB_STANDING_RESERVED,
    JOB_STANDING_RUNNING,
    JOB_STANDING_WAITING,
    Allocation,
    ArrayStanding,
    ClusterOutlook,
    EndedRun,
    ExplainResponse,
    Forecast,
)
from rich.console import Console

from cli import why
from coplace_client.calls import UnansweredError

_T0_US = 1_767_225_600_000_000
_HOUR_US = 3_600_000_000


def ended(**how: Any) -> list[str]:
    """What is printed of a run of n[1-2] that took so long."""
    run: dict[str, Any] = {"cluster": "alpha", "nodes": ["n[1-2]"], "started_at_us": _T0_US}
    run["ended_at_us"] = _T0_US + 3_723_000_000
    told = EndedRun(**{**run, **how})
    answer = ExplainResponse(job_id="j", standing=JOB_STANDING_FINISHED, ended=told)
    return [*why.lines(answer)][1:]


def test_a_job_that_ended_says_where_it_ran_how_long_and_how_it_ended() -> None:
    from_, until = "2026-01-01 00:00:00 UTC", "2026-01-01 01:02:03 UTC"
    assert ended(outcome=JOB_OUTCOME_FAILED, ended_as="FAILED", exit_code=3) == [
        f"ran on n[1-2] of alpha for 01:02:03: from {from_} until {until}",
        "end: failed, exit code 3",
    ]
    assert ended(outcome=JOB_OUTCOME_FAILED, signal=9)[1] == "end: failed, signal 9"
    assert ended(outcome=JOB_OUTCOME_TIMED_OUT, ended_as="TIMEOUT", suspended_s=63.0) == [
        f"ran on n[1-2] of alpha for 01:01:00, suspended for 00:01:03: from {from_} until {until}",
        "end: timed out, its time limit (TIMEOUT)",
    ]
    failed = {"outcome": JOB_OUTCOME_FAILED, "ended_as": "NODE_FAIL", "failed_nodes": ["n2"]}
    assert ended(**failed)[1] == "end: failed, a node failed (NODE_FAIL), failed nodes: n2"
    never = {"outcome": JOB_OUTCOME_CANCELLED, "ended_as": "CANCELLED", "started_at_us": 0}
    assert ended(**never) == [f"never started; it left alpha at {until}", "end: cancelled"]
    long = ended(nodes=[], ended_at_us=_T0_US + 90_000_000_000)[0]
    assert long.startswith("ran on alpha for 1-01:00:00: from")


def waiting() -> ExplainResponse:
    """Promised nodes on p1, does not fit on p2."""
    on_p1 = Candidate(
        cluster="p1",
        nodes=4,
        freq_ghz=2.1,
        time_s=50.0,
        power_w=300.0,
        energy_j=15_000.0,
        time_sd=0.03,
        power_sd=0.04,
        part_eff=1.414,
        constraint="needs 4 nodes, 1 free",
        constraints=[Constraint(kind=CONSTRAINT_KIND_CAPACITY)],
    )
    on_p2 = Candidate(
        cluster="p2",
        nodes=4,
        freq_ghz=3.1,
        tier=2,
        constraint="needs 4 nodes, the cluster has 2",
        constraints=[Constraint(kind=CONSTRAINT_KIND_MISFIT)],
        memory_unknown=True,
    )
    return ExplainResponse(
        job_id="north/p1/7/1767225600",
        attempt=2,
        standing=JOB_STANDING_RESERVED,
        reason="p1: needs 4 nodes, 1 free",
        as_of_us=_T0_US,
        clusters=[
            ClusterOutlook(candidate=on_p1, place=3, waiting=9, free_nodes=1, nodes=8),
            ClusterOutlook(candidate=on_p2, waiting=5, free_nodes=2, nodes=2),
        ],
        reservation=Reservation(cluster="p1", nodes=4, start_at_us=_T0_US + _HOUR_US),
        forecast=Forecast(
            cluster="p1", start_at_us=_T0_US + _HOUR_US, made_at_us=_T0_US, jobs_before=2
        ),
    )


def rows(answer: ExplainResponse) -> list[list[str]]:
    console = Console(width=200)
    with console.capture() as captured:
        for table in why.tables(answer):
            console.print(table)
    found = [line for line in captured.get().splitlines() if line.startswith("| p")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in found]


def test_a_waiting_job_has_why_when_and_what_is_promised() -> None:
    assert list(why.lines(waiting())) == [
        "north/p1/7/1767225600 (attempt 2) waits, and nodes are reserved for it",
        "why: p1: needs 4 nodes, 1 free",
        "expected start: 2026-01-01 01:00:00 UTC (in 60 min) on p1, if no other job arrives and "
        "all jobs run to their limits",
        "before it: 2 jobs are before it in the queue of a cluster that it waits for",
        "promised: 4 nodes of p1 at 2026-01-01 01:00:00 UTC at the latest, unless a job with a "
        "better place arrives",
        "memory: not checked on p2, which does not declare the memory of a node: declare "
        "memory_gib_per_node",
        "as known at 2026-01-01 00:00:00 UTC",
    ]


def test_each_cluster_has_a_row_with_the_reason_and_one_with_what_was_evaluated() -> None:
    assert rows(waiting()) == [
        ["p1", "3 of 9", "1 of 8", "capacity", "needs 4 nodes, 1 free"],
        ["p2", "none", "2 of 2", "misfit", "needs 4 nodes, the cluster has 2"],
        ["p1", "4", "2.1", "50 ± 2", "300 ± 12", "15.0 ± 0.8", "1.414", "0"],
        ["p2", "4", "3.1", "0", "0", "0.0", "0.000", "2"],
    ]


def test_several_kinds_are_each_named_once_and_one_of_a_newer_placement_is_another() -> None:
    answer = waiting()
    kinds = [CONSTRAINT_KIND_CAPACITY, *[CONSTRAINT_KIND_POWER_BUDGET] * 2]
    found = answer.clusters[0].candidate
    del found.constraints[:]
    found.constraints.extend(Constraint(kind=kind) for kind in kinds)
    found.constraints.add().MergeFromString(b"\x08\x7f")
    assert rows(answer)[0][3] == "capacity, power budget, other"


def test_a_rejected_job_says_what_each_cluster_lacks() -> None:
    lacks = Misfit(cluster="p1", needed=9, available=4, reason="needs 9 nodes, the cluster has 4")
    answer = ExplainResponse(
        job_id="j", standing=JOB_STANDING_REJECTED, reason="fits nowhere", misfits=[lacks]
    )
    answer.attempt = 1
    assert list(why.lines(answer)) == [
        "j is rejected: submit it anew or requeue it",
        "why: fits nowhere",
    ]
    [table] = why.tables(answer)
    cells = [[*column.cells] for column in table.columns]
    assert cells == [["p1"], ["9"], ["4"], ["needs 9 nodes, the cluster has 4"]]


def test_a_job_that_holds_nodes_says_where_since_when_and_until_when() -> None:
    allocation = Allocation(
        cluster="p1",
        nodes=4,
        freq_ghz=2.1,
        since_us=_T0_US,
        ends_by_us=_T0_US + _HOUR_US,
        start_by_us=_T0_US + 300_000_000,
    )
    answer = ExplainResponse(job_id="a", standing=JOB_STANDING_DECIDED, allocation=allocation)
    assert list(why.lines(answer)) == [
        "a is to start: its resource manager has not confirmed it yet",
        "on 4 nodes of p1 at 2.1 GHz since 2026-01-01 00:00:00 UTC, until 2026-01-01 01:00:00 UTC "
        "at the latest",
        "if it is not confirmed by 2026-01-01 00:05:00 UTC, the start is withdrawn",
    ]
    assert rows(answer) == []
    answer.allocation.plan_round = 7
    assert "on 4 nodes of p1 at 2.1 GHz, by the plan of round 7 since" in [*why.lines(answer)][1]


@pytest.mark.parametrize(
    ("answer", "line"),
    [
        (ExplainResponse(job_id="a", standing=JOB_STANDING_RUNNING), "a runs"),
        (ExplainResponse(job_id="a", standing=JOB_STANDING_FINISHED), "a has ended"),
        (
            ExplainResponse(
                forecast=Forecast(made_at_us=_T0_US, start_at_us=_T0_US + 50 * _HOUR_US)
            ),
            "expected start: not before 2026-01-03 02:00:00 UTC (in 2 d 2 h), if no other job "
            "arrives and all jobs run to their limits",
        ),
        (
            ExplainResponse(forecast=Forecast(made_at_us=_T0_US)),
            "expected start: none, since it fits on no cluster as they are now",
        ),
        (
            ExplainResponse(
                standing=JOB_STANDING_DECIDED,
                allocation=Allocation(cluster="p1", grant=2, asked_back="held"),
            ),
            "grant 2 was withdrawn and p1 has not answered: the job starts nowhere else until it "
            "does, or until you seize it (`coplace seize`)",
        ),
    ],
)
def test_what_is_known_of_a_job_is_reported_in_a_line(answer: ExplainResponse, line: str) -> None:
    answer.standing = answer.standing or JOB_STANDING_WAITING
    assert line in list(why.lines(answer))


def test_an_address_where_nobody_listens_is_named() -> None:
    with pytest.raises(UnansweredError, match=r"127\.0\.0\.1:1: "):
        why.ask("127.0.0.1:1", "a")


def test_programs_read_a_row_for_each_cluster_with_the_state_of_the_job() -> None:
    rows, columns = why.for_programs(waiting())
    assert {row["is"] for row in rows} == {"waits, and nodes are reserved for it"}
    assert [(row["cluster"], row["place"], row["kind"], row["not_now"]) for row in rows] == [
        ("p1", 3, "capacity", "needs 4 nodes, 1 free"),
        ("p2", None, "misfit", "needs 4 nodes, the cluster has 2"),
    ]
    assert all(tuple(row) == columns for row in rows)


def test_programs_read_one_row_of_a_job_that_runs_and_one_a_cluster_that_it_does_not_fit_on() -> (
    None
):
    runs = ExplainResponse(
        job_id="j", standing=JOB_STANDING_RUNNING, allocation=Allocation(cluster="p1")
    )
    [row], columns = why.for_programs(runs)
    assert (row["cluster"], row["not_now"], tuple(row)) == ("p1", None, columns)
    lacks = ExplainResponse(
        job_id="j",
        standing=JOB_STANDING_REJECTED,
        misfits=[Misfit(cluster="p1", reason="too wide"), Misfit(cluster="p2", reason="no GPUs")],
    )
    rows, columns = why.for_programs(lacks)
    assert [(row["cluster"], row["kind"], row["not_now"]) for row in rows] == [
        ("p1", "misfit", "too wide"),
        ("p2", "misfit", "no GPUs"),
    ]
    assert all(tuple(row) == columns for row in rows)


def test_an_array_says_how_far_its_tasks_are() -> None:
    array = ArrayStanding(job_id="a", tasks=10, waiting=7, running=2, failed=1, at_most=2)
    answer = ExplainResponse(job_id="a", standing=JOB_STANDING_WAITING, array=array)
    assert "tasks: 10, at most 2 at once: 7 waiting, 2 running, 1 failed" in why.lines(answer)
    answer.array.next_index, answer.job_id = 3, "a_9"
    assert [line for line in why.lines(answer) if line.startswith("tasks of a:")] == [
        "tasks of a: 10, at most 2 at once: 7 waiting, 2 running, 1 failed; next is 3"
    ]


@pytest.mark.parametrize(
    ("priority", "words"),
    [
        (52_311, ["order: by its resource manager's priority, 52,311"]),
        (0, ["order: by arrival, behind all jobs to which resource managers gave a priority"]),
        (None, []),
    ],
)
def test_it_says_by_what_a_job_has_its_place_where_managers_own_the_order(
    priority: int | None, words: list[str]
) -> None:
    answer = ExplainResponse(job_id="a", attempt=1, standing=JOB_STANDING_WAITING)
    if priority is not None:
        answer.manager_priority = priority
    assert [line for line in why.lines(answer) if line.startswith("order")] == words
