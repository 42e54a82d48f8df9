"""What a job was weighed at is kept apart from its life, and found again."""

from collections.abc import Mapping
from dataclasses import asdict, fields

import orjson
import pytest
from coplace.v1.control_pb2 import POWER_SCOPE_CLUSTER

from shared.catalogue.policy_settings import PolicySettings
from shared.domain.eamc_policy import Policy
from shared.domain.job import Dependency, Job
from shared.placement.candidates.candidate import Candidate, SlowerMode
from shared.placement.candidates.misfits import Misfit
from shared.placement.jobs import mending
from shared.placement.jobs.actions import Action
from shared.placement.jobs.grants import Void
from shared.placement.jobs.tracked import candidate_of, row_of
from shared.placement.processor import Placement
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
    job = processor._job_table.get(job_id)
    assert job is not None
    return job.candidates


def again(kept: Mapping[str, bytes]) -> Placement:
    return Placement(kept, PolicySettings(policy=Policy.BASE), 7.0)


def in_the_old_form(kept: Mapping[str, bytes], job_id: str) -> dict[str, bytes]:
    """A state of before: the candidates, by the names of their fields, are among the job's."""
    _, rows = orjson.loads(kept[f"candidates/{job_id}"])
    fields_of = [asdict(candidate_of(row)) for row in rows]
    job = {**orjson.loads(kept[f"job/{job_id}"]), "candidates": fields_of}
    others = {key: value for key, value in kept.items() if key != f"candidates/{job_id}"}
    return {**others, f"job/{job_id}": orjson.dumps(job)}


def test_a_job_that_starts_and_runs_writes_its_candidates_no_more() -> None:
    processor = placement(policy=Policy.BASE)
    [start] = round_of(processor, 0, submitted("a"))
    assert {"job/a", "candidates/a"} <= processor.changes().keys()
    round_of(processor, 1, started(start))
    assert "candidates/a" not in processor.changes()
    round_of(processor, 2, finished("a", end_us(2)))
    assert processor.changes()["candidates/a"] is None


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
    endless = Candidate(**{**asdict(first), "part_eff": float("inf")})
    assert candidate_of(orjson.loads(orjson.dumps(row_of(endless)))) == endless


def test_a_state_that_has_them_among_the_job_is_read_and_parted() -> None:
    processor = placement(policy=Policy.BASE)
    round_of(processor, 0, submitted("full", nodes=4), submitted("waits", nodes=4))
    old = in_the_old_form(kept_of(processor), "waits")
    restored = again(old)
    assert weighed(restored, "waits") == weighed(processor, "waits")
    assert restored.changes()["candidates/waits"] is not None


def test_a_wrong_clock_that_is_mended_loses_none_of_them() -> None:
    processor = placement(policy=Policy.BASE)
    round_of(processor, 5, submitted("a"))
    old = in_the_old_form(kept_of(processor), "a")
    changes = mending.mended(old, end_us(0))
    assert {"job/a", "candidates/a"} == changes.keys()
    mended = saved(old, changes)
    assert weighed(again(mended), "a") == weighed(processor, "a")


def test_a_new_attempt_does_not_take_what_the_one_before_was_weighed_at() -> None:
    """Its cluster is gone meanwhile, so that nothing weighs it."""
    processor = placement(policy=Policy.BASE)
    [start] = round_of(processor, 0, submitted("a"))
    kept = kept_of(processor)
    round_of(processor, 1, started(start))
    feed(processor, [requeued("a", end_us(1))])
    later = processor.changes()
    assert later["candidates/a"] is None
    late = saved(kept, later)
    assert weighed(again(late), "a") == ()


@pytest.mark.parametrize("kind", [Action, Candidate, Dependency, Job, Misfit, SlowerMode, Void])
def test_what_json_is_written_of_as_it_is_is_not_compiled(kind: type) -> None:
    """orjson reads the slots of a class; a compiled one has others, and it would crash."""
    assert "__slots__" in vars(kind)


def test_a_new_field_of_a_candidate_goes_last_and_has_a_default() -> None:
    """States keep the others by their place."""
    first = "cluster freq_ghz known time_s power_w time_sd power_sd planned_s planned_j distance "
    then = "part_eff walltime_s rank tier nodes coefficients_version power_model_version draw_mw "
    names = [each.name for each in fields(Candidate)]
    assert names[:20] == [*first.split(), *then.split(), "share", "slower"]
