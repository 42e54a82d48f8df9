"""`coplace jobs`, `queue`, `clusters` and what is asked of jobs, beside a placement that the test
plays rounds of."""

import csv
import io
import json
from collections.abc import Iterator
from typing import Any

import pytest
from coplace.v1.ingest_service_pb2 import Envelope
from coplace.v1.jobs_pb2 import (
    JobCancelled,
    JobHeld,
    JobReleased,
    JobRequeueAsked,
    JobResumed,
    JobSuspended,
)
from coplace.v1.placement_service_pb2 import ListJobsRequest
from typer.testing import CliRunner, Result

from cli import jobs as commands
from cli.jobs import asked
from cli.listing import listed_jobs
from cli.main import app
from services.ingest.model import Intake
from shared.catalogue.topics import Topics
from shared.domain.eamc_policy import Policy
from tests.unit.cli.served import Served
from tests.unit.shared.placement.region import (
    T0_US,
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


@pytest.fixture
def address() -> Iterator[str]:
    """Of a placement where job a has all four nodes of p1, b and c wait for them, d is held."""
    processor = placement(policy=Policy.BASE)
    round_of(processor, 0, *(submitted(name, T0_US + n, nodes=4) for n, name in enumerate(JOBS)))
    round_of(processor, 1, held(D, end_us(0), "ask ada"))
    with Served(processor) as found:
        yield found


def coplace(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments, env={"COLUMNS": "80"})


def rows(result: Result) -> list[dict[str, Any]]:
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_jobs_are_listed_with_where_they_stand_and_why(address: str) -> None:
    found = rows(coplace("jobs", "--output", "json", "--placement", address))
    assert [(row["job"], row["is"]) for row in found] == [
        (A, "decided"),
        (B, "reserved"),
        (C, "waiting"),
        (D, "held"),
    ]
    assert (found[0]["cluster"], found[0]["nodes"]) == ("p1", 4)
    assert found[1]["why"] == "p1: needs 4 nodes, 0 free"
    assert found[3]["why"] == "held: ask ada"


def test_only_what_is_asked_for_is_listed(address: str) -> None:
    def listed(*options: str) -> list[str]:
        found = coplace("jobs", *options, "--output", "json", "--placement", address)
        return [row["job"] for row in rows(found)]

    assert listed("--standing", "held", "--standing", "waiting") == [C, D]
    assert listed("--user", "nobody") == []
    assert listed("--cluster", "p1") == [A, B, C]
    assert listed("--cluster", "p9") == []


def test_a_queue_is_listed_in_its_order(address: str) -> None:
    found = rows(coplace("queue", "p1", "--output", "json", "--placement", address))
    assert [(row["place"], row["job"]) for row in found] == [(1, B), (2, C)]
    assert found[0]["promised on"] == "p1"
    assert rows(coplace("queue", "p9", "--output", "json", "--placement", address)) == []


def test_clusters_are_listed_with_what_is_on_them(address: str) -> None:
    row, other = rows(coplace("clusters", "--output", "json", "--placement", address))
    assert (other["cluster"], other["running"]) == ("p2", 0)
    assert (row["cluster"], row["nodes"], row["free"]) == ("p1", 4, 0)
    assert (row["running"], row["waiting"], row["is"]) == (1, 2, "in reach")


def test_a_cluster_whose_nodes_are_drained_is_listed_as_drained() -> None:
    processor = placement(policy=Policy.BASE)
    one = drained("p2", T0_US, "p2-0001", why="a fan")
    round_of(processor, 0, drained("p1", T0_US, why="the pump"), one)
    with Served(processor) as address:
        whole, part = rows(coplace("clusters", "--output", "json", "--placement", address))
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
        found = rows(coplace("clusters", "--output", "json", "--placement", address))
        shown = coplace("clusters", "--placement", address)
    assert [row["is"] for row in found] == ["undeclared", "lost"]
    assert max(map(len, shown.stdout.splitlines())) <= 80
    assert "note: p2: lost since" in shown.stderr
    assert "the network is down" in shown.stderr


def test_tables_fit_80_columns_and_csv_has_all_that_json_has(address: str) -> None:
    for words in (["jobs"], ["queue", "p1"], ["clusters"]):
        shown = coplace(*words, "--placement", address).stdout
        assert max(map(len, shown.splitlines())) <= 80, shown
        as_csv = coplace(*words, "--output", "csv", "--placement", address).stdout
        as_json = rows(coplace(*words, "--output", "json", "--placement", address))
        assert [list(row) for row in csv.DictReader(io.StringIO(as_csv))] == list(
            map(list, as_json)
        )


def test_what_is_cut_off_is_told_and_pages_join(address: str) -> None:
    found = coplace("jobs", "--limit", "3", "--placement", address)
    assert "note: 1 more: --limit 4 lists all" in found.stderr
    request = ListJobsRequest(most=1)
    whole, in_all = listed_jobs(address, request, 100)
    assert ([job.job_id for job in whole], in_all) == ([*JOBS], 4)


def test_a_standing_that_no_job_has_is_refused_in_one_line(address: str) -> None:
    found = coplace("jobs", "--standing", "bored", "--placement", address)
    assert found.exit_code == 1
    assert found.stderr.startswith("error: --standing must be one of waiting, held")


@pytest.mark.parametrize("word", ["suspend", "unsuspend"])
def test_only_a_run_stands_still_or_goes_on(address: str, word: str) -> None:
    found = coplace(word, B, "--placement", address)
    assert found.exit_code == 1
    assert found.stderr.startswith(f"error: {B} has no run: it waits")


def test_a_job_is_put_back_with_who_and_why(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    published: list[Envelope] = []
    monkeypatch.setattr(commands, "publish", lambda _address, event: published.append(event))
    how = "--reason", "wrong library", "--source", "operator/ada", "--placement", address
    assert coplace("requeue", A, *how).stdout.startswith(f"to be requeued: {A}, which ")
    [event] = published
    message = Intake(Topics()).accept(event, event.time_us / 1e6).event.payload
    assert (message.job_id, message.attempt, message.reason) == (A, 1, "wrong library")  # type: ignore[attr-defined]


def test_what_ended_or_nobody_knows_is_not_put_back() -> None:
    processor = placement()
    [start] = round_of(processor, 0, submitted(A))
    round_of(processor, 1, started(start))
    round_of(processor, 2, finished(A, end_us(1), grant=1))
    with Served(processor) as address:
        ended = coplace("requeue", A, "--placement", address)
        unknown = coplace("requeue", B, "--placement", address)
    assert (ended.exit_code, unknown.exit_code) == (1, 1)
    assert ended.stderr == f"error: {A} has ended: submit it anew\n"
    assert f"'{B}' is not known" in unknown.stderr


def test_ingest_takes_what_is_asked_of_a_job() -> None:
    for message in (
        JobCancelled(job_id="a", reason="typo", cancelled_at_us=T0_US),
        JobHeld(job_id="a", reason="ask ada", held_at_us=T0_US),
        JobReleased(job_id="a", released_at_us=T0_US),
        JobSuspended(job_id="a", reason="repair", suspended_at_us=T0_US),
        JobResumed(job_id="a", resumed_at_us=T0_US),
        JobRequeueAsked(job_id="a", attempt=1, reason="typo", asked_at_us=T0_US),
    ):
        event = asked(message, "operator/ada", T0_US)
        accepted = Intake(Topics()).accept(event, T0_US / 1e6)
        assert (accepted.topic, accepted.event.source) == ("jobs.events", "operator/ada")
        assert accepted.event.payload == message
