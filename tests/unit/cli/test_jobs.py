"""`coplace jobs`, `queue`, `clusters` and what is asked of jobs, beside a placement that the test
plays rounds of."""

import csv
import json
from collections.abc import Iterator
from typing import Any

import pytest
from coplace.v1.control_pb2 import NodeClass, Partition
from coplace.v1.jobs_pb2 import (
    JobCancelled,
    JobHeld,
    JobPrioritized,
    JobReleased,
    JobRequeueAsked,
    JobResumed,
    JobSuspended,
)
from coplace.v1.placement_service_pb2 import ListJobsRequest
from typer.testing import Result

from cli import jobs as commands
from cli.jobs import request_event
from cli.listing import listed_jobs
from shared.domain.eamc_policy import Policy
from tests.unit.cli import command_line
from tests.unit.cli.command_line import published_by, refusal, said, taken
from tests.unit.cli.served import Served
from tests.unit.shared.placement.region import (
    T0_US,
    declared,
    drained,
    end_us,
    finished,
    held,
    lost,
    placement,
    round_of,
    started,
    submitted,
    undeclared,
)

A, B, C, D = JOBS = tuple(f"north/alpha/471{n}/1767225600" for n in range(4))


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Of a placement where job a has all four nodes of p1, b and c wait for them, d is held."""
    processor = placement(policy=Policy.BASE)
    round_of(processor, 0, *(submitted(name, T0_US + n, nodes=4) for n, name in enumerate(JOBS)))
    round_of(processor, 1, held(D, end_us(0), "ask ada"))
    with Served(processor) as found:
        yield found


def coplace(*arguments: str) -> Result:
    return command_line.coplace(*arguments, COLUMNS="80")


def document(address: str, *words: str) -> Any:
    return json.loads(said(*words, "--output", "json", "--placement", address))


def rows(address: str, *words: str) -> list[dict[str, str]]:
    printed = said(*words, "--output", "csv", "--placement", address)
    return [*csv.DictReader(printed.splitlines())]


def test_jobs_are_listed_with_their_state_and_why(address: str) -> None:
    found = rows(address, "jobs")
    assert [(row["job"], row["is"]) for row in found] == [
        (A, "decided"),
        (B, "reserved"),
        (C, "waiting"),
        (D, "held"),
    ]
    assert (found[0]["cluster"], found[0]["nodes"]) == ("p1", "4")
    assert found[1]["why"] == "p1: needs 4 nodes, 0 free"
    assert found[3]["why"] == "held: ask ada"


@pytest.mark.parametrize(
    ("options", "jobs"),
    [
        (["--standing", "held", "--standing", "waiting"], [C, D]),
        (["--cluster", "p1"], [A, B, C]),
    ],
)
def test_only_what_is_asked_for_is_listed(
    address: str, options: list[str], jobs: list[str]
) -> None:
    assert [row["job"] for row in rows(address, "jobs", *options)] == jobs


def test_a_queue_is_listed_in_its_order(address: str) -> None:
    found = rows(address, "queue", "p1")
    assert [(row["place"], row["job"]) for row in found] == [("1", B), ("2", C)]
    assert found[0]["promised on"] == "p1"
    assert (
        "no cluster 'p9': known are p1, p2" in coplace("queue", "p9", "--placement", address).stderr
    )


def test_clusters_are_listed_with_what_is_on_them(address: str) -> None:
    row, other = rows(address, "clusters")
    assert (other["cluster"], other["running"]) == ("p2", "0")
    assert (row["cluster"], row["nodes"], row["free"]) == ("p1", "4", "0")
    assert (row["running"], row["waiting"], row["is"]) == ("1", "2", "in reach")


def test_partitions_and_features_are_listed_below_their_clusters() -> None:
    processor = placement(policy=Policy.BASE)
    debug = Partition(name="debug", nodes=["p1-[0000-0001]"], down=True)
    batch = Partition(name="batch", nodes=["p1-[0001-0003]"], default=True)
    classes = [NodeClass(nodes=1, features=["gpu"]), NodeClass(nodes=3)]
    named: dict[str, Any] = {"partitions": [debug, batch], "node_classes": classes}
    again = declared("p1", nodes=4, time_us=T0_US + 1, **named)
    round_of(processor, 0, again, drained("p1", T0_US + 2, "p1-0003"))
    with Served(processor) as address:
        shown = coplace("clusters", "--placement", address)
    notes = [
        line for line in shown.stderr.splitlines() if "p1: partition" in line or "ture" in line
    ]
    assert notes == [
        "note: p1: partition debug: 2 nodes, 2 free, down",
        "note: p1: partition batch: 3 nodes, 2 free, default",
        "note: p1: feature gpu: 1 nodes",
    ]


def test_a_cluster_whose_nodes_are_drained_is_listed_as_drained() -> None:
    processor = placement(policy=Policy.BASE)
    one = drained("p2", T0_US, "p2-0001", why="a fan")
    round_of(processor, 0, drained("p1", T0_US, why="the pump"), one)
    with Served(processor) as address:
        whole, part = rows(address, "clusters")
    assert (whole["is"], part["is"]) == ("drained", "1 drained")
    assert "all 4 nodes are drained" in whole["why"]
    assert "the pump" in whole["why"]
    assert part["why"].startswith("1 of 4 nodes are drained")


def test_a_cluster_that_is_lost_or_undeclared_says_so_in_a_word_and_why_below() -> None:
    processor = placement(policy=Policy.BASE)
    [start] = round_of(processor, 0, submitted("a", nodes=4))
    assert start.cluster == "p1"
    closed = lost("p2", end_us(0), "the network is down"), undeclared("p1", end_us(0))
    round_of(processor, 1, started(start), *closed)
    with Served(processor) as address:
        found = rows(address, "clusters")
        shown = coplace("clusters", "--placement", address)
    assert [row["is"] for row in found] == ["undeclared", "lost"]
    assert max(map(len, shown.stdout.splitlines())) <= 80
    assert "note: p2: lost since" in shown.stderr
    assert "the network is down" in shown.stderr


def test_tables_fit_80_columns(address: str) -> None:
    for words in (["jobs"], ["queue", "p1"], ["clusters"]):
        shown = coplace(*words, "--placement", address).stdout
        assert max(map(len, shown.splitlines())) <= 80, shown


def test_what_is_cut_off_is_reported_and_pages_join(address: str) -> None:
    found = coplace("jobs", "--limit", "3", "--placement", address)
    assert "note: 1 more: --limit 4 lists all" in found.stderr
    shown = document(address, "jobs", "--limit", "3")
    assert ([job["jobId"] for job in shown["jobs"]], shown["inAll"]) == ([A, B, C], 4)
    whole, in_all = listed_jobs(address, ListJobsRequest(most=1), 100)
    assert ([job.job_id for job in whole], in_all) == ([*JOBS], 4)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["jobs", "--standing", "bored"], "`--standing` must be one of waiting, held"),
        # Only a run is suspended or resumed.
        (["suspend", B], f"{B} has no run: it waits"),
        (["unsuspend", B], f"{B} has no run: it waits"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(address: str, words: list[str], told: str) -> None:
    assert refusal(*words, "--placement", address).startswith(f"error: {told}")


def test_a_job_is_requeued_with_who_and_why(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    published = published_by(commands, monkeypatch)
    how = "--reason", "wrong library", "--source", "operator/ada", "--placement", address
    assert said("requeue", A, *how).startswith(f"to be requeued: {A}, which ")
    [event] = published
    message = taken(event).event.payload
    assert (message.job_id, message.attempt, message.reason) == (A, 1, "wrong library")  # type: ignore[attr-defined]


def test_a_job_gets_another_priority(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    published = published_by(commands, monkeypatch)
    said("prioritize", B, "20", "--reason", "deadline", "--placement", address)
    [event] = published
    message = taken(event).event.payload
    assert isinstance(message, JobPrioritized)
    assert (message.job_id, message.priority, message.reason) == (B, 20, "deadline")


def test_what_ended_or_nobody_knows_is_neither_requeued_nor_cancelled() -> None:
    processor = placement()
    [start] = round_of(processor, 0, submitted(A))
    round_of(processor, 1, started(start))
    round_of(processor, 2, finished(A, end_us(1), grant=1))
    with Served(processor) as address:
        ended = refusal("requeue", A, "--placement", address)
        unknown = refusal("requeue", B, "--placement", address)
        over = refusal("cancel", A, "--placement", address)
    assert over == f"error: {A} has ended: there is nothing to cancel"
    assert ended == f"error: {A} has ended: submit it anew"
    assert f"'{B}' is not known" in unknown


def test_ingest_takes_what_is_asked_of_a_job() -> None:
    for message in (
        JobCancelled(job_id="a", reason="typo", cancelled_at_us=T0_US),
        JobHeld(job_id="a", reason="ask ada", held_at_us=T0_US),
        JobReleased(job_id="a", released_at_us=T0_US),
        JobPrioritized(job_id="a", priority=-5, reason="later", prioritized_at_us=T0_US),
        JobSuspended(job_id="a", reason="repair", suspended_at_us=T0_US),
        JobResumed(job_id="a", resumed_at_us=T0_US),
        JobRequeueAsked(job_id="a", attempt=1, reason="typo", asked_at_us=T0_US),
    ):
        accepted = taken(request_event(message, "operator/ada", T0_US))
        assert (accepted.topic, accepted.event.source) == ("jobs.events", "operator/ada")
        assert accepted.event.payload == message
