"""Jobs whose users change what they ask for while they wait."""

from typing import Any

import pytest

from coplace_client.errors import RejectedError
from shared.catalogue.event import Event
from shared.domain.eamc_policy import Policy
from shared.streams.stages.stage import AlreadyAppliedError, EarlyError
from tests.unit.shared.placement.region import (
    T0_US,
    cancelled,
    declined,
    end_us,
    event,
    finished,
    held,
    placement,
    prioritized,
    released,
    round_of,
    started,
    submitted,
    verdicts,
)


def changed(job_id: str, at_us: int, **asked: Any) -> Event:
    """A job that was submitted at the begin, as its user wants it now."""
    payload = submitted(job_id, changed_at_us=at_us, **asked).payload
    return event(f"changed/{job_id}/{at_us}", payload, at_us)


def test_a_changed_job_waits_at_its_place_for_what_it_asks_for_now() -> None:
    processor = placement(policy=Policy.BASE)
    [runs] = round_of(processor, 0, submitted("a", nodes=3))
    round_of(processor, 1, submitted("b", T0_US + 1, nodes=4), submitted("c", T0_US + 2, nodes=3))
    asked = changed("b", end_us(1), nodes=2)
    assert verdicts(round_of(processor, 2, asked)) == [("b", "queued")]
    with pytest.raises(AlreadyAppliedError):
        processor.handle(asked)
    [start] = round_of(processor, 3, finished("a", end_us(2)))
    assert verdicts([start]) == [("b", "start")]
    assert (len(start.node_indices), start.changed_at_us) == (2, end_us(1))
    assert runs.changed_at_us == 0


def test_the_newest_change_counts_and_a_hold_of_the_job_stays() -> None:
    processor = placement(policy=Policy.BASE)
    round_of(processor, 0, submitted("a", nodes=4))
    round_of(processor, 1, submitted("b", T0_US + 1, nodes=4), held("b", end_us(0), "maintenance"))
    round_of(processor, 2, changed("b", end_us(1) + 5, nodes=1))
    with pytest.raises(AlreadyAppliedError):
        processor.handle(changed("b", end_us(1) + 4, nodes=3))
    assert verdicts(round_of(processor, 3, finished("a", end_us(2)))) == []
    [start] = round_of(processor, 4, released("b", end_us(3)))
    assert len(start.node_indices) == 1


def test_a_changed_job_has_the_priority_that_somebody_gave_it() -> None:
    processor = placement(policy=Policy.BASE)
    round_of(processor, 0, submitted("a", nodes=4))
    waiting = submitted("b", T0_US + 1, nodes=4), submitted("c", T0_US + 2, nodes=4)
    round_of(processor, 1, *waiting, prioritized("b", -7, end_us(0)))
    round_of(processor, 2, changed("b", end_us(1), nodes=3))
    [start] = round_of(processor, 3, finished("a", end_us(2)))
    assert verdicts([start]) == [("c", "start")]


def test_a_change_of_a_granted_job_counts_once_its_start_is_declined() -> None:
    processor = placement(policy=Policy.BASE)
    [granted] = round_of(processor, 0, submitted("a", nodes=4))
    asked = changed("a", end_us(0), nodes=1)
    with pytest.raises(EarlyError):
        processor.handle(asked)
    decided = round_of(processor, 1, declined(granted, end_us(0)), asked)
    [again] = decided
    assert (len(again.node_indices), again.grant) == (1, granted.grant + 1)


def test_a_job_that_runs_or_has_ended_is_changed_no_more() -> None:
    processor = placement(policy=Policy.BASE)
    came = submitted("a", nodes=4), submitted("b", T0_US + 1, nodes=4)
    granted = round_of(processor, 0, *came)[0]
    round_of(processor, 1, started(granted), cancelled("b", end_us(0)))
    for job_id in ("a", "b"):
        with pytest.raises(AlreadyAppliedError):
            processor.handle(changed(job_id, end_us(1), nodes=1))


def test_nobody_changes_the_job_of_another_user() -> None:
    processor = placement(policy=Policy.BASE)
    round_of(processor, 0, submitted("a", nodes=4))
    round_of(processor, 1, submitted("c", T0_US + 2, nodes=4))
    with pytest.raises(RejectedError, match="user"):
        processor.handle(changed("c", end_us(1), nodes=1, user="mallory"))
