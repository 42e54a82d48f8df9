"""Limits of Slurm are declared once; what it does not start for others is declined and comes again
when something changed."""

import asyncio
from typing import Any
from unittest.mock import patch

import grpc
import pytest
from coplace.v1.control_pb2 import LIMIT_SUBJECT_QOS, LIMIT_SUBJECT_USER, LimitsDeclared
from coplace.v1.placement_pb2 import PlacementDecided
from coplace.v1.placement_service_pb2 import (
    JOB_STANDING_HELD,
    JOB_STANDING_WAITING,
    ListedJob,
    ListedLimit,
)
from structlog.testing import capture_logs

from coplace_client.calls import UnansweredError
from services.slurm.adapters.declared_limits import LimitsBySlurm, LimitWatch
from services.slurm.adapters.limited import LimitedStarts
from services.slurm.model.jobs import SlurmJob
from services.slurm.model.limits import enforces_limits
from tests.unit.services.slurm.fields import JOB, RUNS, SUBMIT_S
from tests.unit.services.slurm.region import SITE, PlayedRegion, unanswered

OF_LONG: dict[str, Any] = {
    "subject": LIMIT_SUBJECT_QOS,
    "name": "long",
    "each": LIMIT_SUBJECT_USER,
    "site": SITE.name,
}
LONG = LimitsDeclared(**OF_LONG, most_running_jobs=1)
GONE = LimitsDeclared(**OF_LONG)
SOURCE = "north/alpha"
CONFIG = {
    "ClusterName": "alpha",
    "AccountingStorageType": "accounting_storage/slurmdbd",
    "AccountingStorageEnforce": "associations,limits,qos",
}
RELEASED = {
    "admin_comment": "coplace grant=2 started freq_ghz=2.1",
    "priority": 5,
    "state_reason": "AssocGrpMemLimit",
}
NAME = f"north/alpha/17/{SUBMIT_S}"


def told(region: PlayedRegion) -> list[LimitsDeclared]:
    found = [event.limits_declared for event in region.told if event.HasField("limits_declared")]
    region.told.clear()
    return found


def test_a_limit_is_declared_once_and_taken_away_when_slurm_has_it_no_more() -> None:
    region = PlayedRegion()
    declared = LimitsBySlurm(region, SOURCE, SITE.name)
    declared.declare([LONG])
    declared.declare([LONG])
    assert told(region) == [LONG]
    region.limited = [ListedLimit(limit=LONG, declared_by=SOURCE)]
    again = LimitsBySlurm(region, SOURCE, SITE.name)
    again.declare([LONG])
    assert told(region) == [], "a process that was started anew knows it by placement"
    again.declare([])
    again.declare([])
    assert told(region) == [GONE]


def test_a_limit_that_somebody_else_declared_stays_and_that_is_said_once() -> None:
    region = PlayedRegion()
    region.limited = [ListedLimit(limit=LONG, declared_by="operator/olga")]
    declared = LimitsBySlurm(region, SOURCE, SITE.name)
    tighter = LimitsDeclared(**{**_fields(LONG), "most_running_jobs": 5})
    with capture_logs() as logs:
        declared.declare([tighter])
        declared.declare([tighter])
        declared.declare([])
    assert told(region) == []
    assert [each["problem"] for each in logs] == ["operator/olga declared another one"]


def _fields(limit: LimitsDeclared) -> dict[str, Any]:
    return {field.name: value for field, value in limit.ListFields()}


@pytest.mark.parametrize(
    ("said", "enforces"),
    [("associations,limits,qos", True), ("safe", True), ("associations", False), ("", False)],
)
def test_limits_count_where_slurm_enforces_them(said: str, enforces: bool) -> None:
    assert enforces_limits({**CONFIG, "AccountingStorageEnforce": said}) is enforces
    assert not enforces_limits({**CONFIG, "AccountingStorageType": "accounting_storage/none"})


class _Tables:
    """Says what is set of QOS, and nothing of associations."""

    def __init__(self) -> None:
        self.qos = ["long", "", "", "1", "", "", ""]
        self.asked: list[str] = []

    def table(self, *command: str) -> list[list[str]]:
        """The rows of QOS."""
        self.asked.append(command[2])
        return [self.qos] if command[2] == "qos" else []


class _Beside:
    """What declines starts, and lets jobs in again."""

    def __init__(self) -> None:
        self.region, self.slurm, self.now_s = PlayedRegion(), _Tables(), 0.0
        self.refused: list[tuple[str, int, str]] = []
        self.limited = LimitedStarts(self.region, SITE, ["alpha"], self._refuse, lambda: self.now_s)
        declared = LimitsBySlurm(self.region, SOURCE, SITE.name)
        slurm: Any = self.slurm
        self.watch = LimitWatch(slurm, CONFIG, declared, self.limited, SITE.name)

    async def _refuse(self, start: PlacementDecided, reason: str, limit: str) -> None:
        assert limit in reason
        self.refused.append((start.job_id, start.grant, limit))

    def look(self, *jobs: SlurmJob) -> None:
        """Decline what is limited."""
        asyncio.run(self.limited.look(jobs))

    def released(self, *jobs: SlurmJob) -> list[str]:
        """Let in what may come again, and return which that is."""
        self.watch.look(jobs)
        found = [event.job_released.job_id for event in self.region.told]
        self.region.told.clear()
        return [name for name in found if name]


def job(**fields: Any) -> SlurmJob:
    return SlurmJob({**JOB, **fields})


def test_a_start_is_declined_when_slurm_names_a_limit_for_some_seconds() -> None:
    beside = _Beside()
    beside.look(job(**RELEASED))
    beside.now_s += 2
    beside.look(job(**RELEASED, name="other"))
    beside.look(job())
    beside.now_s += 2
    beside.look(job(**RELEASED))
    assert beside.refused == [], "it was not limited in between"
    beside.now_s += 3
    beside.look(job(**RELEASED), job(job_id=18))
    assert beside.refused == [(NAME, 2, "AssocGrpMemLimit")]


def declined() -> _Beside:
    beside = _Beside()
    runs = job(job_id=18, **RUNS)
    beside.look(job(**RELEASED), runs)
    beside.now_s += 3
    beside.look(job(**RELEASED), runs)
    assert beside.released(job(), runs) == []
    beside.now_s += 100
    assert beside.released(job(), runs) == [], "nothing changed"
    return beside


def test_a_declined_job_comes_again_when_another_one_has_ended_each_time_later() -> None:
    beside = declined()
    assert beside.released(job()) == [NAME]
    assert beside.released(job()) == []
    for pause_s in (60, 120, 240):
        runs = job(job_id=18, **RUNS)
        beside.look(job(**RELEASED), runs)
        beside.now_s += 3
        beside.look(job(**RELEASED), runs)
        beside.now_s += pause_s - 1
        assert beside.released(job()) == []
        beside.now_s += 2
        assert beside.released(job()) == [NAME]


def test_a_declined_job_comes_again_when_limits_have_changed() -> None:
    beside = declined()
    beside.slurm.qos = ["long", "", "", "2", "", "", ""]
    assert beside.released(job(), job(job_id=18, **RUNS)) == [NAME]


def test_what_somebody_holds_stays_held() -> None:
    beside = declined()
    beside.region.listed = [ListedJob(job_id=NAME, standing=JOB_STANDING_HELD)]
    assert beside.released(job()) == []
    beside.region.listed = [ListedJob(job_id=NAME, standing=JOB_STANDING_WAITING)]
    assert beside.released(job()) == [NAME]


def test_a_job_that_is_gone_is_forgotten() -> None:
    beside = declined()
    assert beside.released() == []
    assert not beside.limited.has_declined
    beside.slurm.asked.clear()
    beside.released()
    assert beside.slurm.asked == ["qos", "associations"]


def test_after_a_restart_what_was_declined_before_comes_again_once() -> None:
    beside = _Beside()
    before = job(admin_comment="coplace grant=2 declined", priority=0)
    assert beside.released() == []
    assert beside.released(before, job(job_id=18), job(**RELEASED, job_id=19)) == []
    beside.now_s += 31
    assert beside.released(before) == [NAME]
    beside.now_s += 5_000
    assert beside.released(before) == []


def test_jobs_come_again_where_the_limits_of_the_region_are_not_for_this_process() -> None:
    beside = declined()
    denied = unanswered(grpc.StatusCode.PERMISSION_DENIED, "not an operator")
    with patch.object(beside.region, "limits", side_effect=denied), pytest.raises(UnansweredError):
        beside.watch.look([job()])
    assert [event.job_released.job_id for event in beside.region.told] == [NAME]
