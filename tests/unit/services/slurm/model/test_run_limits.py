"""Limits that somebody changes on runs are published once each."""

from collections.abc import Mapping
from typing import Any

from coplace.v1.ingest_service_pb2 import Envelope
from hypothesis import given
from hypothesis import strategies as st

from coplace_client.bounds import WALLTIME_S
from services.slurm.model.jobs import SlurmJob
from services.slurm.model.run_limits import RunLimits
from tests.unit.services.slurm.fields import JOB, RUNS, SUBMIT_S
from tests.unit.services.slurm.region import SITE

_START_S = SUBMIT_S + 2
_ID = f"north/alpha/17/{SUBMIT_S}"


def run(limit_min: int | None = 5, **fields: Any) -> SlurmJob:
    """A run, as Slurm shows it with a limit."""
    ends = {"time_limit": limit_min, "end_time": _START_S + 60 * (limit_min or 0)}
    return SlurmJob({**JOB, **RUNS, **ends, **fields})


def said(limits: RunLimits, job: SlurmJob, **known: int) -> list[Envelope]:
    """What a look says, where placement knows of the run until when it may last."""
    return list(limits.events([job], SITE, 1, {_ID: known["ends_us"]} if known else {}))


def test_a_limit_is_said_when_it_was_changed_and_not_before_or_behind() -> None:
    limits = RunLimits()
    assert said(limits, run()) == said(limits, run()) == []
    [event] = said(limits, run(60))
    changed = event.job_limit_changed
    assert (changed.job_id, changed.attempt, changed.grant) == (_ID, 1, 2)
    assert changed.ends_by_us == (_START_S + 3_600) * 1_000_000
    assert said(limits, run(60)) == []
    [back] = said(limits, run())
    assert back.job_limit_changed.ends_by_us == (_START_S + 300) * 1_000_000
    assert back.id != event.id or back.time_us == event.time_us


def test_a_limit_that_is_taken_away_is_the_longest_that_there_is() -> None:
    limits = RunLimits()
    said(limits, run())
    [event] = said(limits, run(None))
    most_us = round(WALLTIME_S.most) * 1_000_000
    assert event.job_limit_changed.ends_by_us == _START_S * 1_000_000 + most_us


def test_what_was_changed_while_the_process_was_away_is_said_at_its_first_look() -> None:
    decided_us = (_START_S + 240) * 1_000_000  # Slurm has whole minutes
    assert said(RunLimits(), run(), ends_us=decided_us) == []
    [event] = said(RunLimits(), run(60), ends_us=decided_us)
    assert event.job_limit_changed.ends_by_us == (_START_S + 3_600) * 1_000_000


def test_a_suspended_run_is_compared_when_it_goes_on() -> None:
    limits = RunLimits()
    said(limits, run())
    assert said(limits, run(60, job_state="SUSPENDED")) == []
    [event] = said(limits, run(60, end_time=_START_S + 4_000))
    assert event.job_limit_changed.ends_by_us == (_START_S + 4_000) * 1_000_000
    assert said(limits, run(60, end_time=_START_S + 4_000)) == []


def test_a_job_that_waits_boots_its_nodes_or_has_ended_has_no_limit_of_a_run() -> None:
    limits = RunLimits()
    for state in ("PENDING", "CONFIGURING", "COMPLETED"):
        for limit_min in (5, 60):
            assert said(limits, run(limit_min, job_state=state)) == []


_Look = tuple[int | None, str]


@given(
    st.lists(
        st.tuples(
            st.sampled_from([None, 1, 5, 60]),
            st.sampled_from(["RUNNING", "SUSPENDED", "RUNNING"]),
        ),
        max_size=8,
    )
)
def test_what_was_said_last_is_what_slurm_has_of_each_run_that_goes_on(looks: list[_Look]) -> None:
    limits, known, expected = RunLimits(), None, 5
    said(limits, run(expected))
    for limit_min, state in looks:
        for event in said(limits, run(limit_min, job_state=state)):
            known = event.job_limit_changed.ends_by_us
        if state == "RUNNING":
            changed = limit_min != 5 or known is not None
            assert known == (_ends_us(limit_min) if changed else None)


def _ends_us(limit_min: int | None) -> int:
    seconds: Mapping[None, int] = {None: round(WALLTIME_S.most)}
    return (_START_S + (seconds[None] if limit_min is None else 60 * limit_min)) * 1_000_000
