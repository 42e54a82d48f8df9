"""Orders to Slurm for a heterogeneous job: it starts whole, or not at all."""

from typing import Any

from coplace.v1.placement_pb2 import (
    MISFIT_KIND_PARTS,
    MISFIT_KIND_STARTS_TOO_LATE,
    VERDICT_CANCELLED,
    VERDICT_REJECTED,
    VERDICT_START,
    VERDICT_WITHDRAWN,
    Misfit,
    PlacedPart,
    PlacementDecided,
)

from services.slurm.model.het_jobs import as_a_whole, with_gangs
from services.slurm.model.jobs import GIVEN_BACK, SlurmJob
from services.slurm.processor.orders import (
    Cancel,
    Decline,
    Explain,
    GiveBack,
    Hold,
    Release,
    ReleaseParts,
    orders,
)
from shared.slurm.grant_answer import GrantAnswer
from tests.unit.services.slurm.fields import JOB, RUNS

WORD = GrantAnswer(1, is_started=True, freq_ghz=2.1)


def parts(*of_each: dict[str, Any]) -> list[SlurmJob]:
    return [
        SlurmJob({**JOB, "job_id": 17 + at, "het_job_id": 17, "het_job_offset": at, **changes})
        for at, changes in enumerate(of_each)
    ]


def gang(*of_each: dict[str, Any]) -> SlurmJob:
    [found] = with_gangs(parts(*of_each))
    return found


def start(*nodes: str, walltime_s: float = 600) -> PlacementDecided:
    found = PlacementDecided(verdict=VERDICT_START, grant=1, freq_ghz=2.1, walltime_s=walltime_s)
    found.node_names.extend(nodes)
    found.parts.extend(PlacedPart(node_names=[each]) for each in nodes)
    return found


def rejected(*kinds: int) -> PlacementDecided:
    found = PlacementDecided(verdict=VERDICT_REJECTED, reason="fits nowhere")
    found.misfits.extend(Misfit(kind=kind) for kind in kinds)  # type: ignore[arg-type]
    return found


def test_each_part_is_released_on_its_own_nodes_within_its_share_of_the_limit() -> None:
    found = gang({"time_limit": 5}, {"time_limit": 10, "max_nodes": 2})
    [release] = orders(start("n1", "b[1-2]"), found, 0)
    assert release == ReleaseParts(
        [Release(("n1",), 5, WORD, 1), Release(("b[1-2]",), 10, WORD, 0)]
    )
    words = "released on n1 at 2.1 GHz for 5 min; released on b[1-2] at 2.1 GHz for 10 min"
    assert str(release) == f"in parts: {words}"


def test_a_part_without_a_limit_has_that_of_the_whole() -> None:
    [release] = orders(start("n1", "n2"), gang({"time_limit": None}, {"time_limit": None}), 0)
    assert isinstance(release, ReleaseParts)
    assert [each.limit_min for each in release.parts] == [10, 10]


def test_what_an_operator_lets_in_that_can_be_no_gang_starts_on_what_is_free() -> None:
    decision = start("n1", "n2")
    del decision.parts[:]
    [release] = orders(decision, gang({}, {"partition": "big"}), 0)
    assert isinstance(release, ReleaseParts)
    assert [(each.nodes, each.count) for each in release.parts] == [((), 0), ((), 0)]


def test_parts_that_are_equal_units_of_one_job_are_released_on_a_node_each() -> None:
    decision = start()
    decision.node_names.append("n[1-2]")
    [release] = orders(decision, gang({}, {}), 0)
    assert isinstance(release, ReleaseParts)
    assert [(each.nodes, each.count) for each in release.parts] == [(("n1",), 1), (("n2",), 1)]


def test_a_start_that_took_place_is_made_once() -> None:
    [runs] = as_a_whole(parts(dict(RUNS), dict(RUNS)))
    assert orders(start("n1", "n2"), runs, 0) == []
    withdrawn = PlacementDecided(verdict=VERDICT_WITHDRAWN, grant=1)
    assert orders(withdrawn, runs, 0) == []
    assert orders(withdrawn, gang({}, {}), 0) == [Hold(GrantAnswer(1)), Decline("as asked")]


def test_a_cancellation_ends_it_whether_it_runs_or_not() -> None:
    cancelled = PlacementDecided(verdict=VERDICT_CANCELLED)
    [runs] = as_a_whole(parts(dict(RUNS), dict(RUNS)))
    assert orders(cancelled, runs, 0) == [Cancel()]
    assert orders(cancelled, gang({}, {}), 0) == [Cancel()]


def test_what_no_cluster_has_nodes_for_is_left_to_slurm() -> None:
    left = [Explain("fits nowhere"), GiveBack()]
    back = {"admin_comment": GIVEN_BACK}
    assert orders(rejected(MISFIT_KIND_PARTS), gang({"priority": 0}, {}), 0) == left
    again = gang({**back, "priority": 0}, back)
    assert orders(rejected(MISFIT_KIND_PARTS), again, 0) == left, "killed before it was let go"
    users = gang({**back, "priority": 0, "comment": "coplace held by its user"}, back)
    for waits in (gang({**back, "priority": 9}, back), users):
        assert orders(rejected(MISFIT_KIND_PARTS), waits, 0) == []


def test_what_is_rejected_otherwise_leaves_slurm() -> None:
    dropped = [Explain("fits nowhere"), Cancel()]
    assert orders(rejected(MISFIT_KIND_STARTS_TOO_LATE), gang({}, {}), 0) == dropped
    assert orders(rejected(), gang({}, {}), 0) == dropped
    assert orders(rejected(MISFIT_KIND_PARTS), SlurmJob(JOB), 0) == dropped
