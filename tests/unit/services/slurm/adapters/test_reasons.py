"""Jobs that wait say why, and when they are expected to start, where that has changed."""

import time
from typing import Any

from coplace.v1.placement_pb2 import PlacementDecided
from coplace.v1.placement_service_pb2 import Forecast, ListedJob

from services.slurm.adapters.notes import JobNotes, NotesAMinute, boot_note
from services.slurm.adapters.reasons import Reasons
from services.slurm.model.jobs import SlurmJob
from tests.unit.services.slurm.adapters.test_notes import NotingSlurm, job
from tests.unit.services.slurm.fields import SUBMIT_S
from tests.unit.services.slurm.region import SITE, PlayedRegion

NOW_S = 1_795_353_000.0


class Noted:
    """Notes in the jobs of a Slurm, with a clock and what placement says."""

    def __init__(self, per_minute: int = 30, every_s: float = 0.0) -> None:
        self.slurm, self.region, self.now_s = NotingSlurm("SystemComment"), PlayedRegion(), NOW_S
        made = JobNotes(self.slurm)  # type: ignore[arg-type]
        commands = NotesAMinute(per_minute, lambda: self.now_s)
        self._reasons = Reasons(
            self.region, made, SITE, ["alpha"], every_s, commands, lambda: self.now_s
        )

    def of(self, *jobs: SlurmJob, held: dict[int, str] | None = None) -> list[tuple[str, str, str]]:
        """What is noted now."""
        self.slurm.made.clear()
        self._reasons.note(jobs, held or {})
        return [*self.slurm.made]


def listed(number: int, reason: str, start_s: float = 0.0) -> ListedJob:
    found = ListedJob(job_id=f"north/alpha/{number}/{SUBMIT_S}", reason=reason)
    if start_s:
        found.forecast.CopyFrom(Forecast(cluster="alpha", start_at_us=round(start_s * 1e6)))
    return found


def shown(start_s: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M", time.localtime(start_s))


def test_a_reason_is_noted_once_and_again_when_it_is_another() -> None:
    noted = Noted()
    noted.region.listed = [listed(1, "0 free"), listed(2, "0 free")]
    note = ("1,2", "SystemComment", "coplace: 0 free")
    assert noted.of(job(1), job(2), job(3)) == [note]
    assert noted.of(job(1), job(2), job(3)) == []
    noted.region.listed[1] = listed(2, "1 free")
    assert noted.of(job(1), job(2)) == [("2", "SystemComment", "coplace: 1 free")]


def test_of_nodes_that_boot_first_it_is_noted_which_and_when_the_start_is_expected() -> None:
    decided = PlacementDecided(decided_at_us=round(NOW_S * 1e6), boot_s=600.0, booting=["n[2-3]"])
    at = shown(NOW_S + 600)
    assert boot_note(decided) == f"coplace: start expected {at}: n[2-3] boot first"


def test_an_expected_start_is_noted_anew_where_it_moved_by_more_than_a_little() -> None:
    noted = Noted()
    for start_s, is_noted in ((3600, True), (3700, False), (4200, True), (4230, False)):
        noted.region.listed = [listed(1, "0 free", NOW_S + start_s)]
        note = f"coplace: start expected {shown(NOW_S + start_s)}: 0 free"
        assert noted.of(job(1)) == [("1", "SystemComment", note)] * is_noted
    noted.region.listed = [listed(1, "0 free")]
    assert noted.of(job(1)) == [("1", "SystemComment", "coplace: 0 free")]


def test_a_process_that_was_started_anew_notes_nothing_that_a_job_says_already() -> None:
    noted = Noted()
    noted.region.listed = [listed(1, "0 free")]
    assert noted.of(job(1, system_comment="coplace: 0 free")) == []


def test_so_many_commands_are_made_a_minute_and_who_waited_longest_is_next() -> None:
    noted = Noted(per_minute=2)
    jobs = [job(number) for number in range(1, 6)]
    noted.region.listed = [listed(number, f"{number} before it") for number in range(1, 6)]
    names = [[name for name, *_ in noted.of(*jobs)]]
    for _ in range(2):
        noted.now_s += 60
        names.append([name for name, *_ in noted.of(*jobs)])
    assert names == [["1", "2"], ["3", "4"], ["5"]]
    assert Noted(per_minute=0).of(*jobs) == []


def test_whoever_waits_in_salloc_is_answered_at_once_and_others_when_it_is_time() -> None:
    noted = Noted(every_s=30)
    noted.region.listed = [listed(number, "0 free") for number in (1, 2, 3)]
    note, sits = "coplace: 0 free", job(3, batch_flag=False)
    assert noted.of(job(1)) == [("1", "SystemComment", note)]
    assert noted.of(job(1), job(2)) == []
    assert noted.of(job(1), job(2), sits) == [("2,3", "SystemComment", note), ("3", "", note)]
    noted.now_s += 29
    assert noted.of(job(1), job(2), sits, job(4)) == []


def test_what_is_held_says_why_and_what_runs_or_is_slurms_says_nothing() -> None:
    noted = Noted()
    noted.region.listed = [listed(number, "0 free") for number in (2, 3)]
    states: list[dict[str, Any]] = [
        {},
        {"job_state": "RUNNING"},
        {"admin_comment": "coplace given back"},
    ]
    jobs = [job(number, **of) for number, of in enumerate(states, 1)]
    held = {1: "several reservations"}
    assert noted.of(*jobs, held=held) == [
        ("1", "SystemComment", "coplace: held: several reservations")
    ]
