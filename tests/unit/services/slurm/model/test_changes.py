"""What users change on jobs that wait."""

from typing import Any

import pytest
from coplace.v1.ingest_service_pb2 import Envelope
from coplace.v1.jobs_pb2 import HOLDER_MANAGER, HOLDER_UNSPECIFIED, HOLDER_USER, JobSubmitted

from services.slurm.model.changes import WaitingChanges
from services.slurm.model.jobs import SlurmJob
from tests.unit.services.slurm.fields import JOB

HELD = {"comment": "coplace held by its user"}


def looks(*shown: dict[str, Any], changes: WaitingChanges | None = None) -> list[Envelope]:
    """What is published of a job that is shown so, one look after the other."""
    of = changes or WaitingChanges("north")
    events = []
    for at_us, fields in enumerate(shown, start=1):
        events += of.events({"j": SlurmJob({**JOB, **fields})}, at_us)
        of.confirm()
    return events


def kinds(*shown: dict[str, Any]) -> list[str]:
    return [str(event.WhichOneof("payload")) for event in looks(*shown)]


def test_a_hold_and_a_release_by_its_user_are_orders_of_that_moment() -> None:
    held, released = looks({}, HELD, HELD, {}, {})
    assert held.job_held.reason.startswith("held by its user")
    assert (held.job_held.job_id, held.job_held.held_at_us) == ("j", 2)
    assert held.job_held.holder == HOLDER_USER
    assert list(released.job_released.holders) == [HOLDER_USER]
    assert (released.job_released.job_id, released.job_released.released_at_us) == ("j", 4)


@pytest.mark.parametrize(
    "change",
    [{"time_limit": 9}, {"partition": "big"}, {"required_nodes": "n1"}, {"features": "gpu"}],
)
def test_a_job_whose_terms_were_changed_is_held_with_what_was_until_they_are_as_before(
    change: dict[str, Any],
) -> None:
    before = {"partition": "all", "required_nodes": "n2", "features": ""}
    held, released = looks(before, {**before, **change}, {**before, **change}, before)
    [name] = change
    assert held.job_held.reason.startswith(f"changed in Slurm: {name}. Change it back")
    assert held.job_held.holder == HOLDER_MANAGER
    assert list(released.job_released.holders) == [HOLDER_MANAGER]


def test_a_job_whose_terms_were_changed_is_submitted_with_its_new_ones() -> None:
    changes, asked = WaitingChanges("north"), JobSubmitted(job_id="j", attempt=1, walltime_s=540)
    asked.held_because, asked.held_by = "held by its user", HOLDER_USER
    told = []
    for at_us, limit_min in enumerate((5, 9, 9, 5), start=1):
        waiting = {"j": SlurmJob({**JOB, "time_limit": limit_min})}
        told += changes.events(waiting, at_us, {"j": asked})
        changes.confirm()
    assert [event.job_submitted.changed_at_us for event in told] == [2, 4]
    assert [event.time_us for event in told] == [2, 4]
    assert len({event.id for event in told}) == 2
    # Holds of it are orders.
    assert told[0].job_submitted == JobSubmitted(
        job_id="j", attempt=1, walltime_s=540, changed_at_us=2
    )
    assert changes.changed_at_us("j") == 4


def test_a_change_that_can_t_be_followed_holds_the_job_until_one_can_be() -> None:
    changes, asked = WaitingChanges("north"), JobSubmitted(job_id="j", attempt=1)
    told = []
    for at_us, (limit_min, is_followed) in enumerate(((5, True), (9, False), (9, True)), start=1):
        found = {"j": asked} if is_followed else {}
        waiting = {"j": SlurmJob({**JOB, "time_limit": limit_min})}
        told += changes.events(waiting, at_us, found)
        changes.confirm()
    kinds = [event.WhichOneof("payload") for event in told]
    assert kinds == ["job_held", "job_submitted", "job_released"]


def test_a_user_holds_and_changes_a_job_at_once_and_each_is_let_in_by_itself() -> None:
    before, both = {"time_limit": 5}, {**HELD, "time_limit": 9}
    events = looks(before, both, {"time_limit": 9}, before)
    assert len({event.id for event in events}) == len(events)
    said = [(event.job_held.holder, list(event.job_released.holders)) for event in events]
    assert said == [
        (HOLDER_USER, []),
        (HOLDER_MANAGER, []),
        (HOLDER_UNSPECIFIED, [HOLDER_USER]),
        (HOLDER_UNSPECIFIED, [HOLDER_MANAGER]),
    ]


def test_what_slurm_fills_in_later_and_what_was_released_are_no_changes() -> None:
    assert kinds({"account": ""}, {"account": "physics"}) == []
    said = "coplace grant=1 started freq_ghz=2 submit=1 limit=5 requeue=0"
    word = {"admin_comment": said, "time_limit": 9, "required_nodes": "n1", "cpus": 4}
    assert kinds({}, word) == []


def test_another_nice_value_is_another_priority() -> None:
    [order] = looks({"nice": 0}, {"nice": 30}, {"nice": 30})
    assert (order.job_prioritized.priority, order.job_prioritized.prioritized_at_us) == (-30, 2)


def test_what_a_process_before_held_for_its_user_is_let_in_by_him_and_not_held_again() -> None:
    for shown, payloads in ((HELD, []), ({}, ["job_released"])):
        changes = WaitingChanges("north")
        changes.held_by_user = frozenset({"j"})
        events = looks(shown, changes=changes)
        assert [event.WhichOneof("payload") for event in events] == payloads


def test_what_a_return_to_slurm_restored_is_no_change_and_later_ones_are() -> None:
    word = "coplace grant=1 started freq_ghz=2 submit=1 sizes=1-0"
    released = {"admin_comment": word, "max_nodes": 2, "required_nodes": "n[1-2]"}
    back = {"admin_comment": "coplace given back in silence", "max_nodes": 100_000}
    taken = {"admin_comment": "", "max_nodes": 100_000}
    assert kinds({"max_nodes": 0}, released, back, taken, taken) == []
    assert kinds({"max_nodes": 0}, released, back, taken, {**taken, "time_limit": 9}) == [
        "job_held"
    ]


def test_what_a_process_before_held_for_a_change_is_let_in_by_nothing_that_slurm_shows() -> None:
    changes = WaitingChanges("north")
    changes.held_changed = frozenset({"j"})
    assert looks({"time_limit": 9}, {"time_limit": 5}, changes=changes) == []
    held, released = looks(HELD, {}, changes=changes)
    assert held.job_held.reason.startswith("held by its user")
    assert list(released.job_released.holders) == [HOLDER_USER]


def test_it_is_known_since_when_a_user_holds_a_job_or_its_array() -> None:
    changes = WaitingChanges("north")
    looks({}, HELD, HELD, changes=changes)
    assert [changes.held_at_us(job_id) for job_id in ("j", "j_3", "k")] == [2, 2, 0]
    looks({}, changes=changes)
    assert changes.held_at_us("j") == 0


def test_a_hold_that_a_process_before_published_is_older_than_what_was_said_since() -> None:
    """Somebody let it in meanwhile, in Coplace: a process that is started does not undo that."""
    held = {"comment": "app_id=lu.C coplace held by its user at 1796004883"}
    [order] = looks(held)
    assert order.job_held.held_at_us == order.time_us == 1
    later = WaitingChanges("north")
    [order] = later.events({"j": SlurmJob({**JOB, **held})}, 1_800_000_000_000_000)
    assert order.job_held.held_at_us == 1_796_004_883_000_001
    later.confirm()
    assert later.held_at_us("j") == 1_800_000_000_000_000
    changes = WaitingChanges("north")
    seen = looks({}, held, changes=changes)
    assert [order.job_held.held_at_us for order in seen] == [2]


def test_another_begin_or_deadline_is_a_change_and_a_begin_that_is_over_is_none() -> None:
    now_us = 1_796_000_000_000_000
    later_s, asked = now_us // 1_000_000 + 3_600, JobSubmitted(job_id="j", attempt=1)
    changes = WaitingChanges("north")
    told = []
    for at, when in enumerate(
        (
            {"eligible_time": 0},
            {"eligible_time": later_s},
            {"eligible_time": now_us // 1_000_000},
            {"eligible_time": 0, "deadline": later_s},
            {"deadline": later_s},
            {"deadline": 0},
        )
    ):
        waiting = {"j": SlurmJob({**JOB, **when})}
        told += changes.events(waiting, now_us + at, {"j": asked})
        changes.confirm()
    at_us = [event.job_submitted.changed_at_us - now_us for event in told]
    assert at_us == [1, 2, 3, 5]


def test_what_a_start_does_not_touch_is_a_change_while_it_is_made() -> None:
    word = {"admin_comment": "coplace grant=1 started freq_ghz=2 submit=1 limit=5 requeue=0"}
    released = {**word, "time_limit": 9, "required_nodes": "n1", "partition": "all"}
    declined = {"admin_comment": "coplace grant=1 declined submit=1", "partition": "all"}
    assert kinds({"partition": "all"}, released, declined, {**declined, "cpus": 2}) == ["job_held"]
    [held, released_again] = looks({"partition": "all"}, {**released, "partition": "big"}, declined)
    assert held.job_held.reason.startswith("changed in Slurm: partition. ")
    assert list(released_again.job_released.holders) == [HOLDER_MANAGER]


def test_a_process_that_is_started_compares_with_what_one_before_said() -> None:
    before, asked = WaitingChanges("north"), JobSubmitted(job_id="j", attempt=1)
    before.events({"j": SlurmJob({**JOB, "features": "gpu"})}, 1, {"j": asked})
    before.confirm()
    job = SlurmJob({**JOB, **HELD, "features": "", "nice": 5})
    told = WaitingChanges("north", before.known).events({"j": job}, 9, {"j": asked})
    kinds = [event.WhichOneof("payload") for event in told]
    assert kinds == ["job_submitted", "job_held", "job_prioritized"]
    assert told[0].job_submitted.changed_at_us == 9


def test_what_was_submitted_and_not_kept_is_submitted_anew_but_not_what_is_being_started() -> None:
    word = {"admin_comment": "coplace grant=1 started freq_ghz=2 submit=1 limit=5 requeue=0"}
    for shown, count in (({}, 1), (word, 0)):
        changes = WaitingChanges("north")
        changes.unrecorded = frozenset({"j"})
        waiting = {"j": SlurmJob({**JOB, **shown})}
        told = changes.events(waiting, 1, {"j": JobSubmitted(job_id="j", attempt=1)})
        assert len(told) == count
