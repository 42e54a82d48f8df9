"""The figures and the files of a run come from its topics."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from coplace.v1.control_pb2 import ClusterDeclared
from coplace.v1.jobs_pb2 import JOB_OUTCOME_COMPLETED, JobFinished, JobSubmitted
from coplace.v1.placement_pb2 import (
    PREDICTION_BASIS_SIGNATURE,
    VERDICT_QUEUED,
    VERDICT_START,
    Candidate,
    PlacementDecided,
)
from coplace.v1.pricing_pb2 import ChargeMade, InterferenceEvidence
from coplace.v1.telemetry_pb2 import SignatureMeasured
from google.protobuf.message import Message

from lab.demo import plots, report
from lab.demo.history import History
from lab.demo.options import DemoOptions
from lab.demo.summary import DemoSummary, summarise
from shared.catalogue.event import Event
from shared.catalogue.policy_settings import PolicySettings
from shared.replay.rules import write_rules
from tests.unit.cli.command_line import coplace

HOUR_US = 3_600_000_000


def event(event_id: str, payload: Message) -> Event:
    return Event(id=event_id, source="test", time_us=0, key="", payload=payload)


def finished(job: str, cluster: str, submit_h: int, start_h: int, end_h: int) -> JobFinished:
    found = JobFinished(job_id=job, attempt=1, outcome=JOB_OUTCOME_COMPLETED, cluster=cluster)
    found.app_id, found.nodes, found.cores_per_node = "lu.C", 2, 24
    found.freq_ghz, found.energy_j = 2.0, 1e6
    found.submitted_at_us, found.started_at_us = submit_h * HOUR_US, start_h * HOUR_US
    found.ended_at_us = end_h * HOUR_US
    return found


def start(job: str, cluster: str, *, round_number: int, co_runner: str = "") -> PlacementDecided:
    found = PlacementDecided(job_id=job, attempt=1, round=round_number, verdict=VERDICT_START)
    found.cluster, found.cores_per_node = cluster, 24
    found.node_indices.extend([0, 1])
    found.co_runner_job_id, found.backfilled = co_runner, bool(co_runner)
    found.predicted_slowdown_ratio = 1.1 if co_runner else 1.0
    for name, part_eff in (("p1", 1.4), ("p2", 1.5)):
        known = Candidate(time_s=50.0, power_w=300.0, energy_j=15000.0)
        known.cluster, known.part_eff, known.basis = name, part_eff, PREDICTION_BASIS_SIGNATURE
        found.candidates.append(known)
    return found


def charge(job: str, price_su: str, *evidence: InterferenceEvidence) -> Event:
    made = ChargeMade(job_id=job, attempt=1, revision=1, evidence=evidence)
    made.price_su, made.state_of_practice_su = price_su, "4"
    return event(f"c{job}", made)


@pytest.fixture
def topics() -> dict[str, list[Event]]:
    """Job a runs at once on its best cluster; b waits, then runs beside a on the other one."""
    waiting = PlacementDecided(job_id="b", attempt=1, round=1, verdict=VERDICT_QUEUED)
    evidence = InterferenceEvidence(co_runner_job_id="a", slowdown_ratio=1.21, shutters_used=3)
    return {
        "commands": [
            event(name, ClusterDeclared(cluster=name, nodes=4, cores_per_node=48, idle_power_w=100))
            for name in ("p1", "p2")
        ],
        "jobs.events": [
            *(event(f"j{job}", JobSubmitted(job_id=job, attempt=1)) for job in "ab"),
            event("fx", finished("nobody-submitted-it", "p2", 0, 2, 4)),
            event("fb", finished("b", "p2", 0, 2, 4)),
            event("fa", finished("a", "p1", 0, 0, 2)),
            event("fa", finished("a", "p1", 0, 0, 2)),
        ],
        "telemetry.signatures": [
            event(f"s{job}", SignatureMeasured(app_id="lu.C", job_id=job, time_s=40, power_w=300))
            for job in "ab"
        ],
        "placement.inputs": [],
        "placement.decisions": [
            event("db2", start("b", "p2", round_number=2, co_runner="a")),
            event("db1", waiting),
            event("da", start("a", "p1", round_number=1)),
        ],
        "prices.charges": [charge("a", "4"), charge("b", "3", evidence)],
    }


@pytest.fixture
def summary(topics: dict[str, list[Event]]) -> DemoSummary:
    return summarise(History.read(topics.__getitem__))


def test_the_summary_counts_each_job_once_though_its_finish_came_twice(
    summary: DemoSummary,
) -> None:
    assert summary.jobs == 2
    assert summary.makespan_s == 4 * 3600
    assert summary.mean_response_s == 3 * 3600
    assert summary.energy_j == 2e6


def test_shares_show_the_best_cluster_the_wait_the_backfill_and_the_discount(
    summary: DemoSummary,
) -> None:
    assert summary.share_on_best_cluster == 0.5
    assert summary.share_waited == 0.5
    assert summary.share_backfilled == 0.5
    assert summary.share_discounted == 0.5
    assert summary.mean_price_against_state_of_practice == pytest.approx((1 + 0.75) / 2)
    assert summary.total_price_su == "7"


def test_prediction_errors_compare_what_was_believed_with_what_was_measured(
    summary: DemoSummary,
) -> None:
    errors = summary.errors
    assert errors.time_percent == pytest.approx(25)
    assert errors.power_percent == pytest.approx(0)
    assert errors.slowdown_percent == pytest.approx(100 * (1.21 - 1.1) / 1.21)
    assert errors.submission_power_percent is None


def test_sharing_is_compared_figure_by_figure(summary: DemoSummary) -> None:
    beside = replace(summary, makespan_s=summary.makespan_s / 2, promises_kept=8, promises_broken=2)
    table = report.of_sharing(beside, summary)
    rows = dict(zip(table.columns[0].cells, table.columns[3].cells, strict=True))
    assert rows["makespan"] == "-50.00 %"
    assert rows["price"] == "+0.00 %"
    assert list(table.columns[1].cells)[-1] == "8 of 10"


def test_without_sharing_no_slowdown_is_accepted() -> None:
    assert DemoOptions(sharing=False).placement.max_slowdown == 1.0
    assert DemoOptions().placement.max_slowdown == 1.25


def test_servers_are_not_asked_to_compare() -> None:
    told = coplace("demo", "--compare-sharing", "--kafka")
    assert told.exit_code == 2
    assert "is played without servers" in told.output


def test_a_run_without_a_finished_job_says_where_to_look(topics: dict[str, list[Event]]) -> None:
    topics["jobs.events"] = []
    with pytest.raises(ValueError, match="decisions"):
        summarise(History.read(topics.__getitem__))


@pytest.mark.parametrize("drawn", ["gantt", "power", "falling_cap"])
def test_a_report_writes_every_file_and_two_reports_of_one_run_are_equal(
    drawn: str, topics: dict[str, list[Event]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of its pictures each time: they take most of it."""
    for picture in {"gantt", "power", "falling_cap"} - {drawn}:
        monkeypatch.setattr(plots, picture, lambda _, path: path.touch())
    topics[report.INPUTS] = topics["jobs.events"]
    for folder in ("one", "two"):
        report.write(History.read(topics.__getitem__), {"b": 1_500_000, "a": 7}, tmp_path / folder)
        report.write_inputs(topics.__getitem__, tmp_path / folder)
        write_rules(tmp_path / folder, PolicySettings())
    for name in report.FILES:
        one, two = (tmp_path / folder / name for folder in ("one", "two"))
        assert one.read_bytes() == two.read_bytes(), name
    assert sum(path.stat().st_size > 0 for path in (tmp_path / "one").glob("*.png")) == 1
    rows = (tmp_path / "one" / "jobs.csv").read_text().splitlines()
    assert rows[0] == ",".join(report.COLUMNS)
    assert rows[1].startswith("a,lu.C,p1,2,2.0,0.0,0.0,7200.0,")
    assert json.loads((tmp_path / "one" / "summary.json").read_text())["jobs"] == 2
    balances = json.loads((tmp_path / "one" / "accounts.json").read_text())
    assert balances == {"a": "0.000007", "b": "1.500000"}
