"""Limits of a site count what runs on its clusters, and leave other sites to their own."""

from collections.abc import Mapping
from random import Random
from typing import Any, NamedTuple

from coplace.v1.control_pb2 import (
    LIMIT_SUBJECT_ACCOUNT,
    LIMIT_SUBJECT_PARTITION,
    LIMIT_SUBJECT_QOS,
    LIMIT_SUBJECT_USER,
    LimitSubject,
    Partition,
)
from coplace.v1.placement_pb2 import PlacementDecided
from hypothesis import given
from hypothesis import strategies as st

from shared.catalogue.event import Event
from shared.catalogue.policy_settings import PolicySettings
from shared.domain.eamc_policy import Policy
from shared.placement.processor.placement import Placement
from tests.unit.shared.placement.region import (
    T0_US,
    Twins,
    declared,
    end_us,
    feed,
    finished,
    limits,
    lost,
    placement,
    round_of,
    saved,
    started_on,
    starts,
    submitted,
    undeclared,
    verdict,
)

# Each Slurm has a QOS and a partition of these names.
PARTITIONS = [Partition(name="batch", default=True)]
SITE_OF = {"p1": "north", "p2": "south"}
ON_P1: dict[str, Any] = {"clusters": ["p1"], "qos": "normal"}
ON_P2: dict[str, Any] = {"clusters": ["p2"], "qos": "normal"}


def two_sites(*said: Event, policy: Policy = Policy.BASE) -> Placement:
    nodes, processor = 4, placement(4, policy)
    of_sites = (
        declared(name, nodes, T0_US + 1, site=site, partitions=PARTITIONS)
        for name, site in SITE_OF.items()
    )
    feed(processor, [*of_sites, *said])
    return processor


def at_north(subject: LimitSubject.ValueType, name: str, **most: Any) -> Event:
    return limits(subject, name, site="north", **most)


def job(name: str, number: int = 0, **asks: Any) -> Event:
    return submitted(name, T0_US + number, **asks)


def reason(decided: list[PlacementDecided], job_id: str) -> str:
    [found] = [d.reason for d in decided if d.job_id == job_id and verdict(d) == "queued"]
    return found


def test_a_qos_of_one_slurm_does_not_bind_that_of_another() -> None:
    processor = two_sites(at_north(LIMIT_SUBJECT_QOS, "normal", most_running_jobs=1))
    jobs = [job("a", **ON_P1), job("b", 1, **ON_P1), job("c", 2, **ON_P2), job("d", 3, **ON_P2)]
    decided = round_of(processor, 0, *jobs)
    assert starts(decided) == ["a", "c", "d"]
    assert reason(decided, "b") == "p1: qos normal at north may run 1 jobs at once and runs 1"
    assert starts(round_of(processor, 1, finished("c", end_us(0), cluster="p2"))) == []
    assert starts(round_of(processor, 2, finished("a", end_us(1)))) == ["b"]


def test_a_job_that_may_run_anywhere_goes_to_the_site_that_has_room_for_it() -> None:
    one = at_north(LIMIT_SUBJECT_USER, "ada", most_nodes=1)
    processor = two_sites(one, policy=Policy.PRIORITY_INC_V)
    decided = round_of(processor, 0, *(job(name, n) for n, name in enumerate("abc")))
    assert started_on(decided) == {"a": "p1", "b": "p2", "c": "p2"}


def test_a_job_that_a_site_never_allows_goes_to_another_one() -> None:
    processor = two_sites()
    feed(processor, [at_north(LIMIT_SUBJECT_USER, "ada", most_nodes=1)])
    decided = round_of(processor, 0, job("a", nodes=2), job("b", 1))
    assert started_on(decided) == {"a": "p2", "b": "p1"}


def test_a_limit_that_comes_lets_a_job_that_waits_go_elsewhere() -> None:
    processor = two_sites()
    assert starts(round_of(processor, 0, job("a", nodes=4, user="bob", **ON_P1))) == ["a"]
    assert starts(round_of(processor, 1, job("b", 1, nodes=2))) == []
    limit = limits(LIMIT_SUBJECT_USER, "ada", end_us(1), site="north", most_nodes=1)
    assert started_on(round_of(processor, 2, limit)) == {"b": "p2"}


def test_a_limit_of_a_site_whose_cluster_is_lost_or_undeclared_holds_up_nobody() -> None:
    processor = two_sites(at_north(LIMIT_SUBJECT_USER, "ada", most_nodes=1))
    assert starts(round_of(processor, 0, job("a", nodes=4, user="bob", **ON_P2))) == ["a"]
    jobs = job("b", 1, nodes=2), job("c", 2)
    round_of(processor, 1, *jobs, lost("p1", end_us(0)))
    round_of(processor, 2, undeclared("p1", end_us(1)))
    freed = finished("a", end_us(2), cluster="p2")
    assert started_on(round_of(processor, 3, freed)) == {"b": "p2", "c": "p2"}


def test_a_limit_of_the_region_and_one_of_a_site_both_bind() -> None:
    of_all = limits(LIMIT_SUBJECT_ACCOUNT, "physics", most_nodes=3)
    of_north = at_north(LIMIT_SUBJECT_ACCOUNT, "physics", most_nodes=2)
    processor = two_sites(of_all, of_north)
    jobs = [job("a", nodes=2, **ON_P1), job("b", 1, **ON_P1), job("c", 2, **ON_P2)]
    decided = round_of(processor, 0, *jobs, job("d", 3, **ON_P2))
    assert starts(decided) == ["a", "c"]
    words = "p1: account physics at north may hold 2 nodes at once, holds 2 and needs 1 more"
    region = "account physics may hold 3 nodes at once, holds 3 and needs 1 more"
    assert reason(decided, "d") == f"p2: {region}"
    # It is beyond both on p1; the one of the region is named.
    assert reason(decided, "b") == f"p1: {region}"
    lifted = limits(LIMIT_SUBJECT_ACCOUNT, "physics", end_us(0))
    decided = round_of(processor, 1, lifted)
    assert starts(decided) == ["d"]
    assert reason(decided, "b") == words


def test_a_partition_of_a_site_has_its_own_limit() -> None:
    processor = two_sites(
        at_north(LIMIT_SUBJECT_PARTITION, "batch", each=LIMIT_SUBJECT_USER, most_running_jobs=1)
    )
    jobs = [job("a", **ON_P1), job("b", 1, **ON_P1), job("c", 2, **ON_P2), job("d", 3, **ON_P2)]
    decided = round_of(processor, 0, *jobs, job("e", 4, user="bob", **ON_P1))
    assert starts(decided) == ["a", "c", "d", "e"]
    words = "user ada of partition batch at north may run 1 jobs at once and runs 1"
    assert reason(decided, "b") == f"p1: {words}"


def test_tasks_of_an_array_start_at_a_site_up_to_its_limit() -> None:
    processor = two_sites(at_north(LIMIT_SUBJECT_USER, "ada", most_running_jobs=2))
    decided = round_of(processor, 0, job("a", array="1-5", **ON_P1))
    assert len(starts(decided)) == 2
    [first, _] = starts(decided)
    assert len(starts(round_of(processor, 1, finished(first, end_us(0))))) == 1


def test_a_restart_knows_what_each_site_holds() -> None:
    lived = two_sites(at_north(LIMIT_SUBJECT_QOS, "normal", most_nodes=1))
    round_of(lived, 0, job("a", **ON_P1), job("b", 1, **ON_P2))
    killed = Placement(saved(lived.changes()), PolicySettings(policy=Policy.BASE), 7.0)
    for processor in lived, killed:
        decided = round_of(processor, 1, job("c", 2, **ON_P1), job("d", 3, **ON_P2))
        assert starts(decided) == ["d"]
        assert starts(round_of(processor, 2, finished("a", end_us(1)))) == ["c"]


def test_a_cluster_that_comes_to_a_site_counts_there_from_then_on() -> None:
    processor = two_sites(at_north(LIMIT_SUBJECT_QOS, "normal", most_running_jobs=1))
    round_of(processor, 0, job("a", **ON_P2))
    moved = declared("p2", 4, end_us(0), site="north", partitions=PARTITIONS)
    decided = round_of(processor, 1, moved, job("b", 1, **ON_P1))
    assert starts(decided) == []
    assert reason(decided, "b") == "p1: qos normal at north may run 1 jobs at once and runs 1"


def test_limits_of_a_site_are_listed_alone_with_what_is_held_there() -> None:
    of_all = limits(LIMIT_SUBJECT_QOS, "normal", most_nodes=9)
    processor = two_sites(of_all, at_north(LIMIT_SUBJECT_QOS, "normal", most_nodes=5))
    round_of(processor, 0, job("a", nodes=2, **ON_P1), job("b", 1, **ON_P2))
    held = {each.limit.site: each.nodes for each in processor.queries.limits().limits}
    assert held == {"": 3, "north": 2}
    assert [each.limit.site for each in processor.queries.limits("north").limits] == ["north"]
    assert not processor.queries.limits("south").limits


class Asked(NamedTuple):
    """A job of some nodes of a user, on one of the clusters or on any."""

    user: str
    nodes: int
    clusters: tuple[str, ...]


USERS = ("ada", "bob")
MOST = st.sampled_from([{}, {"most_running_jobs": 1}, {"most_nodes": 2}, {"most_nodes": 3}])
ASKED = st.builds(
    Asked,
    st.sampled_from(USERS),
    st.integers(1, 3),
    st.sampled_from([("p1",), ("p2",), ("p1", "p2")]),
)
# Of the user `ada` and of the QOS, in the region and at each site.
KEYS = [(subject, site) for subject in ("user", "qos") for site in ("", "north", "south")]
_SUBJECTS = {"user": (LIMIT_SUBJECT_USER, "ada"), "qos": (LIMIT_SUBJECT_QOS, "normal")}
Most = Mapping[tuple[str, str], dict[str, Any]]


class Play:
    """Jobs come and end, and what each limit covers is counted without placement."""

    def __init__(self, most: Most) -> None:
        said = [
            limits(*_SUBJECTS[subject], T0_US, site=site, **limit)
            for (subject, site), limit in most.items()
        ]
        self._most = most
        self._twins = Twins(lambda: two_sites(*said))
        self.known, self.running = dict[str, Asked](), dict[str, str]()
        self.ever, self._number = set[str](), 0

    def round_of(self, batch: list[Asked], ended: list[str]) -> None:
        """Let jobs end and come, and decide."""
        at_us = end_us(self._number - 1)
        events = [finished(name, at_us, cluster=self.running.pop(name)) for name in ended]
        for asks in batch:
            name = f"job-{len(self.known):02d}"
            self.known[name] = asks
            asked: dict[str, Any] = {"user": asks.user, "nodes": asks.nodes, "qos": "normal"}
            number = at_us - T0_US + len(self.known)
            events.append(job(name, number, clusters=asks.clusters, **asked))
        decided = self._twins.round_of(self._number, *events)
        self.running |= started_on(decided)
        self.ever |= set(self.running)
        self._number += 1
        for key, limit in self._most.items():
            self._require_within(key, limit)

    def _require_within(self, key: tuple[str, str], limit: dict[str, int]) -> None:
        covered = [
            self.known[name]
            for name, cluster in self.running.items()
            if binds(key, self.known[name], cluster)
        ]
        assert len(covered) <= limit.get("most_running_jobs", 99), (key, self.running)
        assert sum(each.nodes for each in covered) <= limit.get("most_nodes", 99), key

    def can_start(self, asks: Asked) -> bool:
        """Return whether a job fits alone on one of its clusters within all its limits."""
        return any(
            all(
                limit.get("most_nodes", 99) >= asks.nodes
                for key, limit in self._most.items()
                if binds(key, asks, cluster)
            )
            for cluster in asks.clusters
        )


def binds(key: tuple[str, str], asks: Asked, cluster: str) -> bool:
    """Return whether a limit covers a job that runs on a cluster."""
    subject, site = key
    return (subject == "qos" or asks.user == "ada") and site in ("", SITE_OF[cluster])


@given(
    st.lists(st.lists(ASKED, max_size=4), min_size=1, max_size=5),
    st.fixed_dictionaries(dict.fromkeys(KEYS, MOST)),
    st.randoms(use_true_random=False),
)
def test_no_site_holds_more_than_its_limits_and_all_jobs_that_can_start_do(
    batches: list[list[Asked]], most: Most, rng: Random
) -> None:
    play = Play(most)
    for batch in batches:
        play.round_of(batch, rng.sample(sorted(play.running), rng.randint(0, len(play.running))))
    while play.running:
        play.round_of([], rng.sample(sorted(play.running), rng.randint(1, len(play.running))))
    assert play.ever == {name for name, asks in play.known.items() if play.can_start(asks)}
