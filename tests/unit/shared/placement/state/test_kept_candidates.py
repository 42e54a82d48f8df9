"""What a job was evaluated at is kept in a row of its own, and restored."""

from collections.abc import Mapping
from math import inf

from coplace.v1.control_pb2 import POWER_SCOPE_CLUSTER

from shared.catalogue.policy_settings import PolicySettings
from shared.domain.eamc_policy import Policy
from shared.placement.processor.placement import Placement
from shared.placement.state.candidate import Candidate
from shared.streams.state.rows import rows_of
from tests.unit.shared.placement.region import (
    capped,
    end_us,
    feed,
    finished,
    placement,
    requeued,
    round_of,
    saved,
    started,
    submitted,
)


def kept_of(processor: Placement) -> dict[str, bytes]:
    return saved(processor.changes())


def weighed(processor: Placement, job_id: str) -> tuple[Candidate, ...]:
    job = processor.layers.state.jobs.get(job_id)
    assert job is not None
    return job.evaluated.candidates


def again(kept: Mapping[str, bytes]) -> Placement:
    return Placement(kept, PolicySettings(policy=Policy.BASE), 7.0)


def test_a_job_that_starts_and_runs_writes_its_candidates_no_more() -> None:
    processor = placement(policy=Policy.BASE)
    [start] = round_of(processor, 0, submitted("a"))
    assert {"job|a", "candidates|a"} <= processor.changes().keys()
    round_of(processor, 1, started(start))
    assert "candidates|a" not in processor.changes()
    round_of(processor, 2, finished("a", end_us(2)))
    assert processor.changes()["candidates|a"] is None


def test_candidates_come_back_as_they_were_with_their_slower_modes() -> None:
    processor = placement(policy=Policy.BASE, cap_slowdown=2.0)
    feed(processor, [capped(POWER_SCOPE_CLUSTER, "p1", (0, 1e6))])
    round_of(processor, 0, submitted("a", nodes=4), submitted("b", nodes=4))
    found = weighed(processor, "b")
    assert any(candidate.slower for candidate in found)
    assert weighed(again(kept_of(processor)), "b") == found


def test_an_infinite_efficiency_comes_back() -> None:
    processor = placement(policy=Policy.BASE)
    round_of(processor, 0, submitted("a"))
    [first, *_] = weighed(processor, "a")
    endless, rows = first._replace(part_eff=inf), rows_of(Candidate)
    assert rows.decode(rows.encode(endless)) == endless


def test_a_new_attempt_does_not_take_what_the_one_before_was_weighed_at() -> None:
    """Its cluster was removed meanwhile, so that nothing evaluates it."""
    processor = placement(policy=Policy.BASE)
    [start] = round_of(processor, 0, submitted("a"))
    kept = kept_of(processor)
    round_of(processor, 1, started(start))
    feed(processor, [requeued("a", end_us(1))])
    later = processor.changes()
    assert later["candidates|a"] is None
    late = saved(kept, later)
    assert weighed(again(late), "a") == ()
