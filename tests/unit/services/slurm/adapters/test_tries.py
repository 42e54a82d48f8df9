"""What is decided is done, again until it is done, and what can't be is answered."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import grpc
from coplace.v1.placement_pb2 import (
    ACTION_KIND_SUSPEND,
    VERDICT_ACTION,
    VERDICT_START,
    Action,
    PlacementDecided,
)
from structlog.testing import capture_logs

from services.slurm.adapters.commands import SlurmBusyError, SlurmError, SlurmRefusedError
from services.slurm.adapters.looks import SlurmLooks
from services.slurm.adapters.notes import JobNotes
from services.slurm.adapters.obedience import Obedience
from services.slurm.adapters.tries import Tries
from services.slurm.model.jobs import SlurmJob
from services.slurm.processor.orders import Release
from shared.slurm.grant_answer import GrantAnswer
from tests.unit.services.slurm.fields import JOB, RUNS, SUBMIT_S
from tests.unit.services.slurm.region import SITE, PlayedRegion, unanswered

JOB_ID = f"north/alpha/17/{SUBMIT_S}"


class PlayedSlurm:
    """Has one job, and is away at first."""

    def __init__(self) -> None:
        self.released: list[str] = []
        self.away = 1

    def cluster(self) -> str:
        return "alpha"

    def jobs(self, _number: int = 0) -> list[SlurmJob]:
        if self.away:
            self.away -= 1
            raise SlurmError("squeue: slurmctld does not answer")
        return [SlurmJob(JOB)]

    def release(self, job: str, _release: Release) -> None:
        self.released.append(job)


def decided(job_id: str, cluster: str = "alpha", grant: int = 1) -> PlacementDecided:
    found = PlacementDecided(job_id=job_id, attempt=1, cluster=cluster, verdict=VERDICT_START)
    found.grant, found.freq_ghz, found.walltime_s = grant, 2.1, 60
    found.node_names.append("n1")
    return found


def tries(slurm: PlayedSlurm, region: PlayedRegion) -> Tries:
    return Tries(Obedience(slurm, region, SITE, JobNotes(slurm), SlurmLooks(slurm)), retry_s=0.001)  # type: ignore[arg-type]


def test_a_decision_is_obeyed_over_failures_of_slurm_and_of_ingest() -> None:
    slurm, region = PlayedSlurm(), PlayedRegion()
    region.failures = [unanswered(grpc.StatusCode.UNAVAILABLE, "down")]
    both = tries(slurm, region)
    with capture_logs() as logs:
        for decision in (decided(JOB_ID), decided("north/alpha/18/1", grant=3)):
            asyncio.run(both.obey(decision))
    assert slurm.released == ["17"]
    assert [event.job_declined.grant for event in region.told] == [3]
    assert [each["did"] for each in logs if each["event"] == "obeyed"] == [
        "released on n1 at 2.1 GHz for 1 min",
        "declined: Slurm does not have the job any more",
    ]
    failed = [each["problem"] for each in logs if each["event"] == "tried again"]
    assert failed[0] == "squeue: slurmctld does not answer"
    assert "127.0.0.1:1" in failed[1]


class StubbornSlurm(PlayedSlurm):
    """Has three jobs; what a change of one of them raises is set, and it counts what was tried."""

    def __init__(self, failures: Mapping[int, Exception]) -> None:
        super().__init__()
        self.away, self.failures = 0, {str(job): error for job, error in failures.items()}
        self.tried = Counter[str]()
        self.words: dict[str, GrantAnswer] = {}

    def jobs(self, _number: int = 0) -> list[SlurmJob]:
        broken: Any = {"job_id": "?", "submit_time": []}
        return [SlurmJob(broken), *(SlurmJob({**JOB, "job_id": number}) for number in (17, 18, 19))]

    def release(self, job: str, release: Release) -> None:
        self.tried[job] += 1
        if job in self.failures:
            raise self.failures[job]
        super().release(job, release)

    def hold(self, job: str) -> None:
        if isinstance(self.failures.get(job), SlurmBusyError):
            raise self.failures[job]

    def leave(self, job: str, word: GrantAnswer, _changes: Iterable[str] = ()) -> None:
        self.words[job] = word


def obeyed(slurm: StubbornSlurm) -> PlayedRegion:
    """What ingest got of decisions on the three jobs, all of which were obeyed."""
    region = PlayedRegion()
    all_of_them = tries(slurm, region)

    async def obey() -> None:
        found = (decided(f"north/alpha/{number}/{SUBMIT_S}") for number in (17, 18, 19))
        await asyncio.gather(*map(all_of_them.obey, found))

    asyncio.run(obey())
    return region


def test_a_start_that_slurm_refuses_is_declined_in_its_words_and_holds_up_no_other() -> None:
    words = "slurm_update error:\tInvalid node name specified"
    slurm = StubbornSlurm({17: SlurmRefusedError(f"scontrol: {words}", words)})
    region = obeyed(slurm)
    assert (slurm.released, slurm.tried["17"]) == (["18", "19"], 1)
    [declined] = [event.job_declined for event in region.told]
    assert declined.job_id == JOB_ID
    assert declined.reason == "slurm_update error:_Invalid node name specified"
    assert slurm.words == {"17": GrantAnswer(1, submit_s=SUBMIT_S)}


def test_what_is_tried_again_is_of_one_job_and_ends() -> None:
    slurm = StubbornSlurm({17: SlurmBusyError("try again later"), 18: ZeroDivisionError()})
    with capture_logs() as logs:
        region = obeyed(slurm)
    assert slurm.released == ["19"]
    assert (slurm.tried["17"], slurm.tried["18"]) == (24, 3)
    assert [event.job_declined.reason for event in region.told] == ["ZeroDivisionError()"]
    [unanswered_] = [each for each in logs if each["event"] == "not answered"]
    assert (unanswered_["job"], unanswered_["problem"]) == (JOB_ID, "try again later")


class RunningSlurm(PlayedSlurm):
    """Has one job that runs, which it does not suspend where words are set."""

    def __init__(self, words: str = "") -> None:
        super().__init__()
        self.away, self.words = 0, words
        self.suspended: list[str] = []

    def jobs(self, _number: int = 0) -> list[SlurmJob]:
        return [SlurmJob({**JOB, **RUNS})]

    def suspend(self, job: str) -> None:
        if self.words:
            raise SlurmRefusedError(f"scontrol: {self.words}", self.words)
        self.suspended.append(job)


def suspension(slurm: RunningSlurm) -> Any:
    """What ingest got of a suspension."""
    found = PlacementDecided(job_id=JOB_ID, attempt=1, verdict=VERDICT_ACTION, grant=2)
    found.action.CopyFrom(Action(kind=ACTION_KIND_SUSPEND, number=3))
    region = PlayedRegion()
    Obedience(slurm, region, SITE, JobNotes(slurm), SlurmLooks(slurm)).obey(found)  # type: ignore[arg-type]
    [event] = region.told
    return event


def test_an_action_is_answered_when_it_is_done() -> None:
    slurm = RunningSlurm()
    done = suspension(slurm).job_action_done
    assert slurm.suspended == ["17"]
    assert (done.job_id, done.attempt, done.grant, done.number) == (JOB_ID, 1, 2, 3)
    assert done.freq_ghz == 0


def test_an_action_that_slurm_refuses_is_refused_in_its_words() -> None:
    refused = suspension(RunningSlurm("Requested operation not supported")).job_action_refused
    assert (refused.number, refused.reason) == (3, "Requested operation not supported")


def test_a_word_that_ingest_refuses_is_set_aside() -> None:
    slurm, region = StubbornSlurm({17: SlurmRefusedError("no", "no")}), PlayedRegion()
    region.failures = [unanswered(grpc.StatusCode.PERMISSION_DENIED, "no")]
    with capture_logs() as logs:
        assert asyncio.run(tries(slurm, region).obey(decided(JOB_ID))) == []
    assert "set aside" in [each["event"] for each in logs]


class WithArray(PlayedSlurm):
    """Has an array that waits, and a task of it that was taken out."""

    def jobs(self, _number: int = 0) -> list[SlurmJob]:
        waits = {**JOB, "array_job_id": 17, "array_task_string": "0-8:2,11"}
        out = {**JOB, "job_id": 20, "array_job_id": 17, "array_task_id": 9}
        return [SlurmJob(waits), SlurmJob(out)]


def test_a_task_is_released_out_of_its_array() -> None:
    slurm, region = WithArray(), PlayedRegion()
    both = tries(slurm, region)
    for task in (4, 9, 11, 3):
        asyncio.run(both.obey(decided(f"{JOB_ID}_{task}")))
    assert slurm.released == ["17_4", "17_9", "17_11"]
    [declined] = region.told
    assert declined.job_declined.job_id == f"{JOB_ID}_3"


class ShowingAll(PlayedSlurm):
    """Shows all jobs whatever is asked for, as releases before 23.02, and counts how often."""

    def __init__(self) -> None:
        super().__init__()
        self.away, self.looks = 0, 0

    def jobs(self, _number: int = 0) -> list[SlurmJob]:
        self.looks += 1
        return [SlurmJob({**JOB, "job_id": number}) for number in (17, 18, 19)]


def test_one_look_that_shows_all_jobs_is_enough_for_all_that_were_not_changed_since() -> None:
    slurm = ShowingAll()
    both = tries(slurm, PlayedRegion())
    for number in (17, 18, 19):
        asyncio.run(both.obey(decided(f"north/alpha/{number}/{SUBMIT_S}")))
    assert (slurm.released, slurm.looks) == (["17", "18", "19"], 1)
    asyncio.run(both.obey(decided(f"north/alpha/17/{SUBMIT_S}", grant=2)))
    assert slurm.looks == 2
