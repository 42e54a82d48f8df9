"""`coplace slurm obey` does what is decided, again until it is done, and each in its order."""

import asyncio
from collections import Counter
from collections.abc import Mapping
from typing import Any

import grpc
import pytest
from aiokafka.errors import KafkaConnectionError
from coplace.v1.placement_pb2 import (
    ACTION_KIND_SUSPEND,
    VERDICT_ACTION,
    VERDICT_START,
    Action,
    PlacementDecided,
)

from cli.slurm import cli
from cli.slurm.jobs import SlurmJob
from cli.slurm.obey import Obedience
from cli.slurm.orders import Release
from cli.slurm.slurm import SlurmBusyError, SlurmError, SlurmRefusedError
from shared.clients import decisions
from shared.clients.decisions import ResourceManager
from shared.slurm.facts import Site
from shared.slurm.grant_answer import GrantAnswer
from tests.support.agent_ingest import Ingest, served
from tests.support.decisions import PlayedConsumer, barrier, record
from tests.unit.cli.command_line import coplace
from tests.unit.cli.slurm.fields import JOB, RUNS, SUBMIT_S

JOB_ID = f"north/alpha/17/{SUBMIT_S}"


class PlayedSlurm:
    """Has one job, and is away at first."""

    def __init__(self) -> None:
        self.released: list[int] = []
        self.away = 1

    def cluster(self) -> str:
        return "alpha"

    def jobs(self, _number: int = 0) -> list[SlurmJob]:
        if self.away:
            self.away -= 1
            raise SlurmError("squeue: slurmctld does not answer")
        return [SlurmJob(JOB)]

    def release(self, job: int, _release: Release) -> None:
        self.released.append(job)


def decided(job_id: str, cluster: str = "alpha", grant: int = 1) -> PlacementDecided:
    found = PlacementDecided(job_id=job_id, attempt=1, cluster=cluster, verdict=VERDICT_START)
    found.grant, found.freq_ghz, found.walltime_s = grant, 2.1, 60
    found.node_names.append("n1")
    return found


def test_decisions_on_its_cluster_are_obeyed_over_failures_of_slurm_and_of_ingest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slurm, ingest = PlayedSlurm(), Ingest()
    ingest.answers = [grpc.StatusCode.UNAVAILABLE]
    gone = decided("north/alpha/18/1", grant=3)
    told = [decided(JOB_ID), decided("north/beta/5/1", "beta"), gone]
    monkeypatch.setattr(cli, "Slurm", lambda: slurm)
    monkeypatch.setattr(cli, "_RETRY_S", 0.01)
    monkeypatch.setattr(decisions, "AIOKafkaConsumer", PlayedConsumer)
    monkeypatch.setattr(PlayedConsumer, "records", [*map(record, told), barrier()])
    monkeypatch.setattr(PlayedConsumer, "failure", KafkaConnectionError("gone"))
    with served(ingest) as port:
        result = coplace("slurm", "obey", "--site", "north", "--ingest", f"127.0.0.1:{port}")
    assert slurm.released == [17]
    assert [event.job_declined.grant for event in ingest.got] == [3, 3]
    assert sorted(result.stdout.splitlines()) == [
        f"{JOB_ID}: released on n1 at 2.1 GHz for 1 min",
        "north/alpha/18/1: declined: Slurm does not have the job any more",
    ]
    assert f"{JOB_ID}: squeue: slurmctld does not answer; tried again" in result.stderr
    assert "north/alpha/18/1: 127.0.0.1" in result.stderr
    assert "error: Kafka at" in result.stderr
    assert result.exit_code == 1
    assert PlayedConsumer.last.committed == len(told) + 1
    assert PlayedConsumer.last.is_stopped


class StubbornSlurm(PlayedSlurm):
    """Has three jobs; what a change of one of them raises is set, and it counts what was tried."""

    def __init__(self, failures: Mapping[int, Exception]) -> None:
        super().__init__()
        self.away, self.failures = 0, dict(failures)
        self.tried = Counter[int]()
        self.words: dict[int, GrantAnswer] = {}

    def jobs(self, _number: int = 0) -> list[SlurmJob]:
        broken: Any = {"job_id": "?", "submit_time": []}
        return [SlurmJob(broken), *(SlurmJob({**JOB, "job_id": number}) for number in (17, 18, 19))]

    def release(self, job: int, release: Release) -> None:
        self.tried[job] += 1
        if job in self.failures:
            raise self.failures[job]
        super().release(job, release)

    def hold(self, job: int) -> None:
        if isinstance(self.failures.get(job), SlurmBusyError):
            raise self.failures[job]

    def leave(self, job: int, word: GrantAnswer) -> None:
        self.words[job] = word


def obeyed(slurm: StubbornSlurm, monkeypatch: pytest.MonkeyPatch) -> Ingest:
    """What ingest got of decisions on the three jobs, all of which were obeyed."""
    told = [decided(f"north/alpha/{number}/{SUBMIT_S}") for number in (17, 18, 19)]
    monkeypatch.setattr(cli, "_RETRY_S", 0.001)
    monkeypatch.setattr(decisions, "AIOKafkaConsumer", PlayedConsumer)
    monkeypatch.setattr(PlayedConsumer, "records", [record(each) for each in told])
    monkeypatch.setattr(PlayedConsumer, "failure", KafkaConnectionError("gone"))
    ingest, manager = Ingest(), ResourceManager("alpha", "north", frozenset({"alpha"}))
    with served(ingest) as port:
        obedience = Obedience(slurm, f"127.0.0.1:{port}", Site("north", "none", ""))  # type: ignore[arg-type]
        with pytest.raises(KafkaConnectionError):
            asyncio.run(cli._follow(manager, obedience))
    assert PlayedConsumer.last.committed == len(told)
    return ingest


def test_a_start_that_slurm_refuses_is_declined_in_its_words_and_holds_up_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    words = "slurm_update error:\tInvalid node name specified"
    slurm = StubbornSlurm({17: SlurmRefusedError(f"scontrol: {words}", words)})
    ingest = obeyed(slurm, monkeypatch)
    assert (slurm.released, slurm.tried[17]) == ([18, 19], 1)
    [declined] = [event.job_declined for event in ingest.got]
    assert declined.job_id == JOB_ID
    assert declined.reason == "slurm_update error:_Invalid node name specified"
    assert slurm.words == {17: GrantAnswer(1, submit_s=SUBMIT_S)}


def test_what_is_tried_again_is_of_one_job_and_ends(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    slurm = StubbornSlurm({17: SlurmBusyError("try again later"), 18: ZeroDivisionError()})
    ingest = obeyed(slurm, monkeypatch)
    assert slurm.released == [19]
    assert (slurm.tried[17], slurm.tried[18]) == (24, 3)
    assert [event.job_declined.reason for event in ingest.got] == ["ZeroDivisionError()"]
    assert f"{JOB_ID}: try again later; not answered" in capsys.readouterr().err


class RunningSlurm(PlayedSlurm):
    """Has one job that runs, which it does not suspend where words are set."""

    def __init__(self, words: str = "") -> None:
        super().__init__()
        self.away, self.words = 0, words
        self.suspended: list[int] = []

    def jobs(self, _number: int = 0) -> list[SlurmJob]:
        return [SlurmJob({**JOB, **RUNS})]

    def suspend(self, job: int) -> None:
        if self.words:
            raise SlurmRefusedError(f"scontrol: {self.words}", self.words)
        self.suspended.append(job)


def suspension(slurm: RunningSlurm) -> Any:
    """What ingest got of a suspension."""
    found = PlacementDecided(job_id=JOB_ID, attempt=1, verdict=VERDICT_ACTION, grant=2)
    found.action.CopyFrom(Action(kind=ACTION_KIND_SUSPEND, number=3))
    ingest = Ingest()
    with served(ingest) as port:
        obedience = Obedience(slurm, f"127.0.0.1:{port}", Site("north", "none", ""))  # type: ignore[arg-type]
        obedience.obey(found)
    [event] = ingest.got
    return event


def test_an_action_is_answered_when_it_is_done() -> None:
    slurm = RunningSlurm()
    done = suspension(slurm).job_action_done
    assert slurm.suspended == [17]
    assert (done.job_id, done.attempt, done.grant, done.number) == (JOB_ID, 1, 2, 3)
    assert done.freq_ghz == 0


def test_an_action_that_slurm_refuses_is_refused_in_its_words() -> None:
    refused = suspension(RunningSlurm("Requested operation not supported")).job_action_refused
    assert (refused.number, refused.reason) == (3, "Requested operation not supported")


def test_a_word_that_ingest_refuses_is_set_aside(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    slurm = StubbornSlurm({17: SlurmRefusedError("no", "no")})
    refusing = Ingest()
    refusing.answers = [grpc.StatusCode.PERMISSION_DENIED]
    monkeypatch.setattr(cli, "_RETRY_S", 0.001)
    with served(refusing) as port:
        obedience = Obedience(slurm, f"127.0.0.1:{port}", Site("north", "none", ""))  # type: ignore[arg-type]
        assert asyncio.run(cli._until_done(obedience, decided(JOB_ID))) == []
    assert "set aside" in capsys.readouterr().err
