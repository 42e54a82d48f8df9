"""`coplace slurm tell` publishes each fact once, and says which of them ingest refuses."""

from collections.abc import Mapping, Sequence

import pytest
from coplace.v1.ingest_service_pb2 import Envelope

from cli.slurm import tell
from cli.slurm.jobs import SlurmJob
from cli.slurm.tell import SlurmPublisher
from shared.process.settings import Settings
from shared.slurm.facts import Site
from tests.unit.cli.slurm.fields import JOB, RUNS


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
