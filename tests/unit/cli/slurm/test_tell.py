"""`coplace slurm tell` publishes each fact once, and says which of them ingest refuses."""

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import grpc
import pytest
from coplace.v1.control_pb2 import ClusterDeclared, Partition
from coplace.v1.ingest_service_pb2 import Envelope

from cli.slurm import tell
from cli.slurm.jobs import SlurmJob
from cli.slurm.tell import SlurmPublisher
from coplace_client.calls import UnansweredError
from shared.process.settings import Settings
from shared.slurm.facts import Site
from tests.unit.cli.slurm.fields import JOB, RUNS, SUBMIT_S

# What no Slurm should show: each would be a job.
ODD: list[Any] = [
    {},
    {"job_id": 3},
    {**JOB, "job_id": 4, "submit_time": "today"},
    {**JOB, "job_id": 5, "submit_time": -1},
    {**JOB, **RUNS, "job_id": 6, "nodes": "n[1-"},
    {**JOB, "job_id": 7, "het_job_id": {"number": "x"}, "job_state": []},
]


def one_by_one(_ingest: str, _settings: Settings, events: Sequence[Envelope]) -> Mapping[int, str]:
    """Refuse a call of many where one of them is of job 18, as ingest does for what is too big."""
    if any("/18/" in event.id for event in events):
        why = SimpleNamespace(
            code=lambda: grpc.StatusCode.RESOURCE_EXHAUSTED,
            details=lambda: "big",
            trailing_metadata=tuple,
        )
        raise UnansweredError("127.0.0.1:1", why)
    TOLD.extend(events)
    return {}


TOLD: list[Envelope] = []


def test_what_is_new_is_reported_and_what_is_refused_is_noted_by_its_id(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls: list[list[str]] = []

    def refuse_the_last(
        _ingest: str, _settings: Settings, events: Sequence[Envelope]
    ) -> Mapping[int, str]:
        calls.append([str(event.WhichOneof("payload")) for event in events])
        return {len(events) - 1: "it is bad"}

    monkeypatch.setattr(tell, "publish_all", refuse_the_last)
    teller = SlurmPublisher("127.0.0.1:1", Site("north", "none", "gold-6254"), "alpha")
    for fields in (JOB, JOB, {**JOB, **RUNS}):
        teller.tell([SlurmJob(fields)])
    assert calls == [["job_submitted"], ["job_started"]]
    noted = capsys.readouterr().err.splitlines()
    assert len(noted) == 2
    assert "ingest refused north/coplace.v1.JobStarted/north/alpha/17/" in noted[1]
    assert noted[1].endswith(": it is bad")


def test_a_job_that_fails_is_set_aside_and_noted_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    TOLD.clear()
    monkeypatch.setattr(tell, "publish_all", one_by_one)
    teller = SlurmPublisher("127.0.0.1:1", Site("north", "none", "gold-6254"), "alpha")
    honest = [{**JOB, "job_id": number} for number in (16, 17, 18, 19)]
    for _ in range(3):
        teller.tell([SlurmJob(fields) for fields in [*ODD, *honest]])
    told = [event.job_submitted.job_id.split("/")[2] for event in TOLD]
    assert [each for each in told if each in {"16", "17", "19"}] == ["16", "17", "19"]
    noted = capsys.readouterr().err.splitlines()
    assert len(noted) == len(set(noted))
    assert [line for line in noted if "job 6 " in line and "nodes" in line]
    assert [line for line in noted if "/18/" in line and "big" in line]


def test_a_requeue_ends_the_run_before_which_is_charged(monkeypatch: pytest.MonkeyPatch) -> None:
    TOLD.clear()
    monkeypatch.setattr(tell, "publish_all", one_by_one)
    teller = SlurmPublisher("127.0.0.1:1", Site("north", "none", "gold-6254"), "alpha")
    word = {"admin_comment": f"coplace grant=2 started freq_ghz=2.1 submit={SUBMIT_S}"}
    again = {**JOB, **word, "submit_time": SUBMIT_S + 62}
    for fields in ({**JOB, **RUNS, **word}, again, again, {**again, **RUNS, **word}):
        teller.tell([SlurmJob(fields)])
    assert [event.WhichOneof("payload") for event in TOLD] == [
        *("job_submitted", "job_started", "job_finished", "job_submitted", "job_started")
    ]
    ended, anew = TOLD[2].job_finished, TOLD[4].job_started
    assert (ended.job_id, ended.grant) == (TOLD[1].job_started.job_id, 2)
    assert ended.ended_at_us - ended.started_at_us == 60_000_000
    assert (anew.job_id, anew.grant) == (TOLD[3].job_submitted.job_id, 0)


def test_partitions_are_declared_anew_and_nodes_in_other_places_are_noted_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What runs is known by the places of its nodes."""
    declared: list[ClusterDeclared] = []
    monkeypatch.setattr(tell, "publish", lambda _, event: declared.append(event.cluster_declared))
    teller = SlurmPublisher("127.0.0.1:1", Site("north", "none", "gold-6254"), "alpha")
    first = ClusterDeclared(cluster="alpha", node_names=["n1", "n2"])
    down = ClusterDeclared(
        cluster="alpha", node_names=["n1", "n2"], partitions=[Partition(name="all", down=True)]
    )
    moved = ClusterDeclared(cluster="alpha", node_names=["n2", "n1"])
    teller.declare(first)
    for found in (first, down, moved, moved, first):
        teller.declare_changed(found)
    assert declared == [first, down, first]
    [noted] = capsys.readouterr().err.splitlines()
    assert "restart this program when the cluster is idle" in noted
