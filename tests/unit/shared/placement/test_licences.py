"""Licences of a cluster, a site or the region: jobs hold them, and heads reserve them."""

from typing import Any

import pytest
from coplace.v1.control_pb2 import LICENCE_SCOPE_CLUSTER
from coplace.v1.placement_pb2 import (
    CONSTRAINT_KIND_LICENCES,
    CONSTRAINT_KIND_LICENCES_LACKING,
    VERDICT_HELD,
    VERDICT_START,
    Constraint,
    PlacementDecided,
)
from coplace.v1.placement_service_pb2 import JOB_STANDING_WAITING, ListLicencesRequest

from coplace_client.errors import RejectedError
from shared.catalogue.event import Event
from shared.domain.queue_discipline import QueueDiscipline
from shared.placement.processor.placement import Placement
from shared.scheduling.consumable import ConsumableScheduler
from shared.scheduling.forecast import StartsAhead
from shared.streams.stages.stage import AlreadyAppliedError, OvertakenError
from tests.unit.shared.placement import region
from tests.unit.shared.placement.region import T0_US, licences, round_of, started_on

PLACES = ("p1", "site", "")


def job(name: str, **asked: Any) -> Event:
    whole: dict[str, Any] = {"clusters": ["p1"], "licences": {"matlab": 1}}
    return region.submitted(name, T0_US + 2, **(whole | asked))


def on_p2(name: str, **asked: Any) -> Event:
    return job(name, clusters=["p2"], **asked)


def starts(decided: list[PlacementDecided]) -> set[str]:
    return set(started_on(decided))


def why(made: Placement, job_id: str, cluster: str = "p1") -> list[Constraint]:
    return [c for c in region.answered(made, job_id).constraints if c.cluster in ("", cluster)]


def later_us(number: int) -> int:
    """Just before the end of a round."""
    return region.end_us(number) - 1


@pytest.mark.parametrize("place", PLACES)
def test_a_job_starts_only_while_all_that_it_names_are_free(place: str) -> None:
    made = region.placement(nodes=8)
    jobs = [job(name, licences={"matlab": 2}) for name in ("a", "b", "c")]
    assert starts(round_of(made, 1, licences("matlab", 5, place), *jobs)) == {"a", "b"}
    assert starts(round_of(made, 2)) == set()
    assert starts(round_of(made, 3, region.finished("a", later_us(3)))) == {"c"}


def test_jobs_of_all_clusters_share_those_of_a_site_and_of_the_region() -> None:
    made = region.placement(nodes=8)
    there = [licences("of-site", 1, "site"), licences("of-region", 1), licences("own", 1, "p1")]
    there.append(licences("own", 1, "p2"))
    jobs = [
        each(f"{each.__name__}/{name}", licences={name: 1})
        for name in ("of-site", "of-region", "own")
        for each in (job, on_p2)
    ]
    found = starts(round_of(made, 1, *there, *jobs))
    assert found == {"job/of-site", "job/of-region", "job/own", "on_p2/own"}


def test_of_a_name_in_several_places_a_job_takes_of_each() -> None:
    made = region.placement(nodes=8)
    there = licences("matlab", 3), licences("matlab", 2, "p1")
    jobs = [job("a"), job("b"), job("c"), on_p2("d"), on_p2("e")]
    assert starts(round_of(made, 1, *there, *jobs)) == {"a", "b", "d"}


def test_a_granted_job_holds_them_until_its_start_is_declined() -> None:
    made = region.placement(nodes=8)
    [granted] = round_of(made, 1, licences("matlab", 1), job("a"))
    assert starts(round_of(made, 2, job("b"))) == set()
    declined = region.declined(granted, later_us(3))
    cancelled = region.cancelled("a", later_us(3))
    assert starts(round_of(made, 3, declined, cancelled)) == {"b"}


def test_small_takers_do_not_starve_a_job_that_needs_many() -> None:
    """The head reserves them from the time at which the last of them is expected back: takers that
    end before may have what is free, and no others."""
    made = region.placement(nodes=8)
    first = job("first", walltime_s=7200.0)
    round_of(made, 1, licences("matlab", 4), first)
    head = job("head", licences={"matlab": 4})
    takers = [job(f"taker-{n}", walltime_s=w) for n, w in enumerate((72000.0, 60.0, 72000.0))]
    assert starts(round_of(made, 2, head, *takers)) == {"taker-1"}
    more = [on_p2(f"elsewhere-{n}", walltime_s=72000.0) for n in range(3)]
    assert starts(round_of(made, 3, *more)) == set()
    ended = [region.finished(name, later_us(4)) for name in ("first", "taker-1")]
    assert starts(round_of(made, 4, *ended)) == {"head"}


def test_a_job_without_licences_passes_one_that_waits_for_them() -> None:
    made = region.placement(nodes=2)
    decided = round_of(made, 1, licences("matlab", 1), job("a"), job("b"), job("c", licences={}))
    assert starts(decided) == {"a", "c"}


def test_a_reason_names_the_licence_and_who_holds_how_many_and_until_when() -> None:
    made = region.placement(nodes=8)
    there = licences("matlab", 9, "site", reason="bought in May")
    holders = [job(n, licences={"matlab": c}) for n, c in zip("abcd", (1, 3, 2, 1), strict=True)]
    decided = round_of(made, 1, there, *holders, job("e", licences={"matlab": 4}))
    [found] = [c for c in why(made, "e") if c.kind == CONSTRAINT_KIND_LICENCES]
    assert (found.by, found.needed, found.available, found.unit) == ("matlab", 4, 2, "licences")
    ends_us = {d.job_id: d.decided_at_us + round(d.walltime_s * 1e6) for d in decided}
    assert found.until_us == ends_us["b"]
    words = region.answered(made, "e").reason
    assert "needs 4 matlab, 2 of 9 of site site free" in words
    assert "held by b (3), c (2), a (1) and 1 more (1), until " in words
    assert region.answered(made, "e").reservation.start_at_us == ends_us["b"]


def test_a_reason_names_the_job_whose_reservation_would_be_delayed() -> None:
    made = region.placement(nodes=8)
    round_of(made, 1, licences("matlab", 4), job("a", licences={"matlab": 2}))
    round_of(made, 2, job("head", licences={"matlab": 4}), job("b", walltime_s=72000.0))
    assert "beside the reservation of head" in region.answered(made, "b").reason


@pytest.mark.parametrize(
    ("there", "needed", "available"),
    [
        ([], 1, None),
        ([licences("ansys", 3)], 1, None),
        ([licences("matlab", 3, "p2")], 1, None),
        ([licences("matlab", 2)], 3, 2),
        ([licences("matlab", 9), licences("matlab", 2, "p1")], 3, 2),
        ([licences("matlab", 0)], 1, 0),
    ],
)
def test_a_job_is_held_while_no_cluster_of_its_has_as_many_in_all(
    there: list[Event], needed: int, available: int | None
) -> None:
    made = region.placement(nodes=8)
    [held] = round_of(made, 1, *there, job("a", licences={"matlab": needed}))
    assert held.verdict == VERDICT_HELD
    [found] = why(made, "a")
    assert (found.kind, found.by) == (CONSTRAINT_KIND_LICENCES_LACKING, "matlab")
    told = found.available if found.HasField("available") else None
    assert (found.needed, told) == (needed, available)
    enough = [licences("matlab", needed, place, later_us(2)) for place in ("p1", "")]
    assert starts(round_of(made, 2, *enough)) == {"a"}


def test_a_job_is_told_of_the_cluster_that_lacks_least() -> None:
    made = region.placement(nodes=8)
    there = licences("matlab", 2, "p1"), licences("matlab", 3, "p2")
    [held] = round_of(made, 1, *there, job("a", clusters=["p1", "p2"], licences={"matlab": 4}))
    assert held.reason.startswith("needs 4 matlab, and p2 can give a job 3 in all")


@pytest.mark.parametrize("clusters", [["p1", "p2"], []])
def test_a_job_is_held_whose_reservation_and_licences_are_on_unlike_clusters(
    clusters: list[str],
) -> None:
    made = region.placement(nodes=8)
    window = region.reserved("course", 0.0, 7200.0, nodes=["p1-0000"], users=["ada"])
    asked = job("a", clusters=clusters, reservation="course", walltime_s=60.0)
    [held] = round_of(made, 1, licences("matlab", 1, "p2"), window, asked)
    assert held.verdict == VERDICT_HELD
    assert "no licences of that name are declared for p1" in held.reason
    assert starts(round_of(made, 2, licences("matlab", 1, "p1", later_us(2)))) == {"a"}


def test_a_job_goes_to_the_cluster_that_has_what_it_names() -> None:
    made = region.placement(nodes=8)
    there = licences("matlab", 1, "p2")
    assert started_on(round_of(made, 1, there, job("a", clusters=[]))) == {"a": "p2"}


def test_fewer_than_are_in_use_stop_new_starts_only() -> None:
    made = region.placement(nodes=8)
    [decided] = round_of(made, 1, licences("matlab", 3), job("a", licences={"matlab": 3}))
    round_of(made, 2, region.started(decided))
    fewer = licences("matlab", 2, time_us=later_us(3))
    assert starts(round_of(made, 3, fewer, job("b", licences={"matlab": 1}))) == set()
    assert region.answered(made, "a").allocation.cluster == "p1"
    assert region.answered(made, "b").standing != JOB_STANDING_WAITING  # it has a reservation
    assert "0 of 2 of the region free" in region.answered(made, "b").reason
    assert starts(round_of(made, 4, region.finished("a", later_us(4)))) == {"b"}


def test_what_is_removed_holds_jobs_and_counts_nothing() -> None:
    made = region.placement(nodes=8)
    round_of(made, 1, licences("matlab", 2), job("a"))
    [held] = round_of(made, 2, licences("matlab", None, time_us=later_us(2)), job("b"))
    assert held.verdict == VERDICT_HELD
    assert list(made.queries.licences(ListLicencesRequest()).licences) == []
    assert starts(round_of(made, 3, licences("matlab", 2, time_us=later_us(3)))) == {"b"}


def test_tasks_of_an_array_hold_them_one_by_one() -> None:
    made = region.placement(nodes=8)
    array = job("a", array="0-4", licences={"matlab": 2})
    assert starts(round_of(made, 1, licences("matlab", 5), array)) == {"a_0", "a_1"}
    assert starts(round_of(made, 2, region.finished("a_0", later_us(2)))) == {"a_2"}


def test_a_forecast_starts_jobs_as_licences_come_back() -> None:
    made = region.placement(nodes=8)
    names = ["a", "b", "c", "d"]
    decided = round_of(made, 1, licences("matlab", 1, "site"), *map(job, names[:2]), on_p2("c"))
    [first] = [d for d in decided if d.verdict == VERDICT_START]
    snapshot = made.queries.snapshot()
    found = dict(StartsAhead(snapshot.now_s, snapshot.schedulers).starts())
    begins_s = sorted(each.start_s for each in found.values())
    ends_s = first.decided_at_us / 1e6 + first.walltime_s
    assert len(begins_s) == 2
    assert begins_s[0] == pytest.approx(ends_s)
    assert begins_s[1] > begins_s[0] + 1000.0


def test_a_forecast_between_rounds_bears_that_a_name_was_removed() -> None:
    """The entries of the last round are still in the queue."""
    made = region.placement(nodes=4)
    there = licences("matlab", 1), licences("ansys", 4)
    jobs = [job("a"), job("b"), job("c", licences={"ansys": 4}), job("d", licences={"matlab": 1})]
    round_of(made, 1, *there, job("e", licences={"ansys": 1}), *jobs)
    region.feed(made, [licences("matlab", None, time_us=later_us(2))])
    snapshot = made.queries.snapshot()
    found = dict(StartsAhead(snapshot.now_s, snapshot.schedulers).starts())
    assert [made.layers.state.jobs.by_arrival[arrival] for arrival in found] == ["c"]


def counted(made: Placement) -> set[str]:
    """The clusters on which a pass counts licences."""
    found = made.queries.snapshot().schedulers.items()
    return {
        name for name, each in found if isinstance(each, ConsumableScheduler) if each.licences.any
    }


def test_a_pass_counts_only_licences_that_a_waiting_job_needs() -> None:
    made = region.placement(nodes=8)
    there = licences("matlab", 1), licences("ansys", 1, "p2")
    round_of(made, 1, *there, job("a"), on_p2("b", licences={}))
    assert counted(made) == set()
    round_of(made, 2, job("c", walltime_s=60.0))
    assert counted(made) == {"p1"}
    round_of(made, 3, region.cancelled("c", later_us(3)))
    assert counted(made) == set()


def test_a_list_says_how_many_there_are_and_who_holds_them() -> None:
    made = region.placement(nodes=8)
    there = [licences("matlab", 9, "site"), licences("ansys", 2, "p2"), licences("matlab", 4)]
    round_of(made, 1, *there, job("a", licences={"matlab": 2}), on_p2("b"))
    listed = made.queries.licences(ListLicencesRequest()).licences
    assert [(each.licences.name, each.licences.place, each.in_use) for each in listed] == [
        ("ansys", "p2", 0),
        ("matlab", "site", 3),
        ("matlab", "", 3),
    ]
    assert [(h.job_id, h.count) for h in listed[1].holders] == [("a", 2), ("b", 1)]
    of_p1 = made.queries.licences(ListLicencesRequest(cluster="p1", name="matlab")).licences
    assert [each.licences.place for each in of_p1] == ["site", ""]


def test_a_place_that_nobody_declared_has_no_licences() -> None:
    made = region.placement(nodes=8)
    with pytest.raises(RejectedError, match="'p9' is no site: known are site"):
        made.handle(licences("matlab", 1, "p9"))
    with pytest.raises(RejectedError, match="'matlab' is not declared there: known are none"):
        made.handle(licences("matlab", None))


def test_an_older_declaration_changes_nothing() -> None:
    made = region.placement(nodes=8)
    newer = licences("matlab", 2, time_us=T0_US + 5)
    region.feed(made, [newer])
    with pytest.raises(AlreadyAppliedError):
        made.handle(newer)
    with pytest.raises(OvertakenError):
        made.handle(licences("matlab", 9, time_us=T0_US + 4))


def test_a_cluster_takes_its_licences_along_when_it_is_undeclared() -> None:
    made = region.placement(nodes=8)
    region.feed(made, [licences("matlab", 2, "p2"), region.undeclared("p2", T0_US + 5)])
    assert list(made.queries.licences(ListLicencesRequest()).licences) == []


def listed(made: Placement) -> list[tuple[str, str]]:
    found = made.queries.licences(ListLicencesRequest()).licences
    return [(each.licences.name, each.licences.place) for each in found]


def moved(name: str, at_us: int, site: str = "other") -> Event:
    return region.declared("p1", 8, time_us=at_us, site=site, cluster=name)


def test_a_site_takes_its_licences_along_when_its_last_cluster_leaves_it() -> None:
    twins = region.Twins(lambda: region.placement(nodes=8))
    twins.round_of(1, licences("matlab", 5, "site"), licences("ansys", 1))
    twins.round_of(2, moved("p1", later_us(2)))
    assert listed(twins.lived) == [("ansys", ""), ("matlab", "site")]
    twins.round_of(3, moved("p2", later_us(3)))
    twins.kill()
    assert [listed(each) for each in (twins.lived, twins.killed)] == [[("ansys", "")]] * 2
    twins.round_of(4, moved("p2", later_us(4), "site"), job("a"), on_p2("b"))
    assert [listed(each) for each in (twins.lived, twins.killed)] == [[("ansys", "")]] * 2


@pytest.mark.parametrize("place", ["p1", "site"])
def test_a_copy_of_a_declaration_counts_no_more_once_its_place_was_gone(place: str) -> None:
    made = region.placement(nodes=8)
    old, newer = licences("matlab", 5, place, T0_US + 5), licences("matlab", 4, place, T0_US + 6)
    gone = [region.undeclared(name, T0_US + 7) for name in ("p1", "p2")]
    region.feed(made, [old, newer, *gone, moved("p1", T0_US + 8, "site")])
    with pytest.raises(OvertakenError):
        made.handle(old)
    with pytest.raises(AlreadyAppliedError):
        made.handle(newer)
    assert listed(made) == []
    region.feed(made, [licences("matlab", 3, place, T0_US + 9)])
    assert listed(made) == [("matlab", place)]


def test_of_places_that_are_gone_the_newest_rows_are_kept() -> None:
    """A cluster that comes and goes leaves a bounded number of rows."""
    made = region.placement(nodes=8)
    for number in range(5):
        at_us = T0_US + 1000 * (number + 1)
        name = f"c{number}"
        there = [
            licences(f"l{n}", 1, name, at_us + 1 + n, scope=LICENCE_SCOPE_CLUSTER)
            for n in range(256)
        ]
        region.feed(made, [moved(name, at_us), *there, region.undeclared(name, at_us + 900)])
    rows = made.layers.state.licences._rows.rows
    assert len(rows) == 1024
    assert {row.place for row in rows.values()} == {"c1", "c2", "c3", "c4"}


def test_under_slurms_discipline_a_job_that_lacks_licences_is_passed_over() -> None:
    made = region.placement(nodes=4, discipline=QueueDiscipline.SLURM, bf_interval_s=1.0)
    assert starts(round_of(made, 1, licences("matlab", 1), job("a"))) == {"a"}
    assert made.queries.policy().under_easy == {}
    assert starts(round_of(made, 2, job("b"), job("c", licences={}, nodes=2))) == {"c"}
    [constraint] = region.on(region.answered(made, "b"), "p1").constraints
    assert (constraint.unit, constraint.available) == ("licences", 0)
    assert not region.answered(made, "b").HasField("reservation")
    assert starts(round_of(made, 3, region.finished("a", later_us(3)))) == {"b"}


def test_under_slurms_discipline_two_clusters_start_no_two_jobs_with_one_licence() -> None:
    made = region.placement(nodes=4, discipline=QueueDiscipline.SLURM, bf_interval_s=1.0)
    assert len(starts(round_of(made, 1, licences("matlab", 1), job("a"), on_p2("b")))) == 1


def test_a_restart_decides_what_the_process_before_would_have() -> None:
    twins = region.Twins(lambda: region.placement(nodes=8))
    there = [licences("matlab", 4, "site"), licences("ansys", 1, "p1"), licences("ansys", 3)]
    jobs = [job(f"a-{n}", licences={"matlab": 2, "ansys": 1}) for n in range(3)]
    assert twins.round_of(1, *there, *jobs, on_p2("b", licences={"matlab": 3}))
    twins.kill()
    twins.round_of(2, on_p2("c"), job("d", walltime_s=60.0))
    twins.kill()
    twins.round_of(
        3, region.finished("a-0", later_us(3)), licences("ansys", None, "p1", later_us(3))
    )
    twins.kill()
    twins.round_of(4)
