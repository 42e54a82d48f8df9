"""Limits of partitions bind the jobs that run there, and leave their other partitions to them."""

from collections.abc import Iterable, Mapping
from random import Random
from typing import Any, NamedTuple

import pytest
from coplace.v1.control_pb2 import (
    LIMIT_SUBJECT_ACCOUNT,
    LIMIT_SUBJECT_PARTITION,
    LIMIT_SUBJECT_UNSPECIFIED,
    LIMIT_SUBJECT_USER,
    Partition,
)
from coplace.v1.jobs_pb2 import Part
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
    placement,
    round_of,
    saved,
    started,
    starts,
    submitted,
    verdict,
)

ON_P1: dict[str, Any] = {"clusters": ["p1"]}
# `batch` has all nodes, `short` the first four of six; who says nothing is in `batch`.
PARTITIONS = (
    Partition(name="batch", default=True),
    Partition(name="short", nodes=["n[0-3]"]),
)


def limited(*said: Event, parts: tuple[Partition, ...] = PARTITIONS) -> Placement:
    processor = placement(6, Policy.BASE)
    names = declared("p1", 6, T0_US + 1, node_names=["n[0-5]"], partitions=parts)
    feed(processor, [names, *said])
    return processor


def of(name: str, time_us: int = T0_US, **most: Any) -> Event:
    return limits(LIMIT_SUBJECT_PARTITION, name, time_us, **most)


def job(name: str, number: int = 0, **asks: Any) -> Event:
    return submitted(name, T0_US + number, **(ON_P1 | asks))


def in_partitions(decided: list[PlacementDecided]) -> dict[str, str]:
    return {each.job_id: each.partition for each in decided if verdict(each) == "start"}


def reason(decided: list[PlacementDecided], job_id: str) -> str:
    [found] = [d.reason for d in decided if d.job_id == job_id and verdict(d) == "queued"]
    return found


def test_a_partition_has_so_many_jobs_at_once_and_others_pass() -> None:
    processor = limited(of("short", most_running_jobs=1))
    jobs = [job("a", partitions=["short"]), job("b", 1, partitions=["short"]), job("c", 2)]
    decided = round_of(processor, 0, *jobs)
    assert in_partitions(decided) == {"a": "short", "c": "batch"}
    assert reason(decided, "b") == "p1: partition short may run 1 jobs at once and runs 1"
    assert starts(round_of(processor, 1, finished("a", end_us(0)))) == ["b"]


def test_a_job_of_two_partitions_starts_in_the_one_that_is_at_no_limit() -> None:
    processor = limited(of("short", most_nodes=2))
    either: dict[str, Any] = {"partitions": ["short", "batch"]}
    jobs = [job(name, n, **either) for n, name in enumerate("abcd")]
    assert in_partitions(round_of(processor, 0, *jobs)) == {
        "a": "short",
        "b": "short",
        "c": "batch",
        "d": "batch",
    }


def test_a_job_waits_for_a_limit_where_its_other_partition_has_too_few_nodes() -> None:
    processor = limited(of("batch", most_nodes=5))
    either: dict[str, Any] = {"partitions": ["short", "batch"]}
    decided = round_of(processor, 0, job("a", nodes=1), job("b", 1, nodes=5, **either))
    assert in_partitions(decided) == {"a": "batch"}
    words = "p1: partition batch may hold 5 nodes at once, holds 1 and needs 5 more"
    assert reason(decided, "b") == words
    assert in_partitions(round_of(processor, 1, of("batch", end_us(0)))) == {"b": "batch"}


@pytest.mark.parametrize(
    ("each", "same", "other"),
    [
        (LIMIT_SUBJECT_USER, {"user": "ada"}, {"user": "bob"}),
        (LIMIT_SUBJECT_ACCOUNT, {"account": "physics"}, {"account": "bio"}),
    ],
)
def test_each_user_or_account_has_a_limit_of_a_partition_for_itself(
    each: Any, same: dict[str, Any], other: dict[str, Any]
) -> None:
    processor = limited(of("short", each=each, most_running_jobs=1))
    asks: dict[str, Any] = {"partitions": ["short"]}
    jobs = [job("a", **asks, **same), job("b", 1, **asks, **same), job("c", 2, **asks, **other)]
    assert starts(round_of(processor, 0, *jobs)) == ["a", "c"]
    assert starts(round_of(processor, 1, finished("c", end_us(0)))) == []
    assert starts(round_of(processor, 2, finished("a", end_us(1)))) == ["b"]


def test_jobs_that_name_no_partition_count_in_the_default_one() -> None:
    processor = limited(of("batch", most_cores=100))
    decided = round_of(processor, 0, *(job(name, n) for n, name in enumerate("abc")))
    assert in_partitions(decided) == {"a": "batch", "b": "batch"}
    assert reason(decided, "c") == (
        "p1: partition batch may hold 100 cores at once, holds 96 and needs 48 more"
    )


def test_tasks_of_an_array_start_up_to_the_limit_of_their_partition() -> None:
    processor = limited(of("batch", most_running_jobs=2))
    decided = round_of(processor, 0, job("a", array="1-5"))
    assert len(starts(decided)) == 2
    [first, _] = starts(decided)
    assert len(starts(round_of(processor, 1, finished(first, end_us(0))))) == 1


def test_parts_of_a_gang_count_in_the_partitions_that_they_run_in() -> None:
    processor = limited(of("short", most_nodes=2), of("batch", most_running_jobs=2))
    parts = [Part(units=1, partitions=["short"]), Part(units=2, partitions=["batch"])]
    decided = round_of(
        processor, 0, job("a", nodes=3, parts=parts), job("b", 1, partitions=["short"])
    )
    [gang] = [each for each in decided if each.job_id == "a"]
    assert [part.partition for part in gang.parts] == ["short", "batch"]
    assert starts(decided) == ["a", "b"]
    more = job("c", 2, partitions=["short"]), job("d", 3), job("e", 4)
    decided = round_of(processor, 1, *more)
    assert in_partitions(decided) == {"d": "batch"}
    assert reason(decided, "c").startswith("p1: partition short may hold 2 nodes at once, holds 2")
    assert reason(decided, "e") == "p1: partition batch may run 2 jobs at once and runs 2"


def test_a_gang_starts_whose_other_part_is_in_no_partition() -> None:
    free = (Partition(name="short", nodes=["n[0-3]"]), Partition(name="other"))
    processor = limited(of("short", most_nodes=1), parts=free)
    parts = [Part(units=1), Part(units=2, partitions=["short", "other"])]
    jobs = [job("a", partitions=["other"]), job("b", 1, nodes=3, parts=parts)]
    decided = round_of(processor, 0, *jobs)
    assert starts(decided) == ["a", "b"]
    [gang] = [each for each in decided if each.job_id == "b"]
    assert [part.partition for part in gang.parts] == ["", "other"]


def test_a_gang_goes_to_its_other_partition_where_a_start_before_it_reached_the_limit() -> None:
    two = (Partition(name="short", nodes=["n[0-3]"]), Partition(name="other", nodes=["n[4-5]"]))
    processor = limited(of("short", most_nodes=2), parts=two)
    parts = [Part(units=1, partitions=["short", "other"])] * 2
    jobs = [job("a", nodes=2, partitions=["short"]), job("b", 1, nodes=2, parts=parts)]
    decided = round_of(processor, 0, *jobs)
    assert starts(decided) == ["a", "b"]
    [gang] = [each for each in decided if each.job_id == "b"]
    assert [part.partition for part in gang.parts] == ["other", "other"]
    assert list(gang.node_indices) == [4, 5]


def test_parts_of_a_gang_in_one_partition_are_one_job_there() -> None:
    processor = limited(of("short", most_running_jobs=2))
    parts = [Part(units=1, partitions=["short"])] * 2
    jobs = [job("a", nodes=2, parts=parts), job("b", 1, partitions=["short"])]
    assert starts(round_of(processor, 0, *jobs)) == ["a", "b"]


def test_what_a_manager_starts_by_itself_counts_in_the_partition_of_its_nodes() -> None:
    processor = limited(of("short", most_running_jobs=1), of("batch", most_running_jobs=1))
    own = job("a", nodes=2, partitions=["short", "batch"])
    [decided] = round_of(processor, 0, own)
    assert (decided.partition, len(decided.node_indices)) == ("short", 2)
    round_of(processor, 1, started(decided, nodes=["n[4-5]"], node_units=[]))
    either = job("b", partitions=["batch", "short"])
    assert in_partitions(round_of(processor, 2, either)) == {"b": "short"}


def test_a_restart_finds_who_is_in_which_partition() -> None:
    lived = limited(of("short", most_nodes=1))
    either: dict[str, Any] = {"partitions": ["short", "batch"]}
    round_of(lived, 0, job("a", **either), job("b", 1, **either))
    killed = Placement(saved(lived.changes()), PolicySettings(policy=Policy.BASE), 7.0)
    for processor in lived, killed:
        decided = round_of(processor, 1, job("c", 2, partitions=["short"]))
        assert reason(decided, "c").endswith("may hold 1 nodes at once, holds 1 and needs 1 more")
        assert starts(round_of(processor, 2, finished("a", end_us(1)))) == ["c"]


def test_a_partition_of_a_name_is_limited_on_all_clusters_together() -> None:
    batch = [Partition(name="batch", default=True)]
    processor = limited(of("batch", most_running_jobs=2), parts=tuple(batch))
    feed(processor, [declared("p2", 6, T0_US + 2, partitions=batch)])
    jobs = [submitted(name, T0_US + n) for n, name in enumerate("abc")]
    assert starts(round_of(processor, 0, *jobs)) == ["a", "b"]


def test_what_is_held_in_a_partition_is_listed_with_its_limit() -> None:
    both = of("short", each=LIMIT_SUBJECT_USER, most_nodes=9), of("short", most_nodes=9)
    processor = limited(*both)
    asks: dict[str, Any] = {"partitions": ["short"]}
    round_of(processor, 0, job("a", nodes=2, **asks), job("b", 1, user="bob", **asks))
    held = {each.limit.each: each for each in processor.queries.limits().limits}
    assert (held[LIMIT_SUBJECT_USER].who, held[LIMIT_SUBJECT_USER].nodes) == ("ada", 2)
    together = held[LIMIT_SUBJECT_UNSPECIFIED]
    assert (together.nodes, together.running_jobs, together.cores) == (3, 2, 144)


class Asked(NamedTuple):
    """A job of some nodes in any of some partitions, or of two parts: one node of the first
    partition, the rest in any of the others."""

    user: str
    nodes: int
    partitions: tuple[str, ...]
    is_gang: bool

    def submitted(self, name: str, number: int) -> Event:
        asks: dict[str, Any] = {"user": self.user, "nodes": self.nodes}
        if self.is_gang:
            first, *others = self.partitions
            asks["parts"] = [
                Part(units=1, partitions=[first]),
                Part(units=self.nodes - 1, partitions=others),
            ]
        else:
            asks["partitions"] = self.partitions
        return job(name, number, **asks)


def asked(user: str, nodes: int, partitions: list[str], is_gang: bool) -> Asked:
    is_gang = is_gang and nodes > 1 and len(partitions) > 1
    return Asked(user, nodes, tuple(partitions), is_gang)


# Some overlap; the first and the last have no node in common.
NODES_OF = {"one": {0, 1, 2, 3}, "two": {2, 3, 4, 5}, "last": {4, 5}, "all": {*range(6)}}
NAMES, USERS = tuple(NODES_OF), ("ada", "bob")
MOST = st.sampled_from([{}, {"most_running_jobs": 1}, {"most_nodes": 2}, {"most_nodes": 3}])
ASKED = st.builds(
    asked,
    st.sampled_from(USERS),
    st.integers(1, 3),
    st.lists(st.sampled_from(NAMES), min_size=1, unique=True),
    st.booleans(),
)


class Held(NamedTuple):
    """What one job holds in one partition, by what was decided."""

    user: str
    partition: str
    nodes: int


def held_by(asks: Asked, decided: PlacementDecided) -> list[Held]:
    """Count it from the decision, and check that its nodes are of the partitions that it names."""
    if not asks.is_gang:
        assert {*decided.node_indices} <= NODES_OF[decided.partition]
        return [Held(asks.user, decided.partition, asks.nodes)]
    for part in decided.parts:
        assert {*part.node_indices} <= NODES_OF[part.partition]
    return [Held(asks.user, part.partition, len(part.node_indices)) for part in decided.parts]


def require_within(
    limit: dict[str, int], held: list[list[Held]], partition: str, user: str
) -> None:
    """Add up what is held in a partition, of a user where one is named, without placement."""
    nodes = [
        sum(own.nodes for own in one if own.partition == partition)
        for one in held
        if any(own.partition == partition and user in ("", own.user) for own in one)
    ]
    assert len(nodes) <= (limit.get("most_running_jobs") or 99), (partition, user, held)
    assert sum(nodes) <= (limit.get("most_nodes") or 99), (partition, user, held)


class Play:
    """Jobs come and end, and what each partition holds is counted without placement."""

    def __init__(self, most: Mapping[str, tuple[dict[str, int], dict[str, int]]]) -> None:
        partitions = tuple(
            Partition(name=name, nodes=[f"n{node}" for node in sorted(nodes)])
            for name, nodes in NODES_OF.items()
        )
        kinds = LIMIT_SUBJECT_UNSPECIFIED, LIMIT_SUBJECT_USER
        said = [
            of(name, each=each, **limit)
            for name, both in most.items()
            for each, limit in zip(kinds, both, strict=True)
        ]
        self._most = most
        self._twins = Twins(lambda: limited(*said, parts=partitions))
        self.known, self.running = dict[str, Asked](), dict[str, list[Held]]()
        self.ever, self._number = set[str](), 0

    def round_of(self, batch: Iterable[Asked], ended: Iterable[str]) -> None:
        """Let jobs end and come, and decide."""
        at_us = end_us(self._number - 1)
        events = [finished(name, at_us) for name in ended]
        for asks in batch:
            name = f"job-{len(self.known):02d}"
            self.known[name] = asks
            events.append(asks.submitted(name, at_us - T0_US + len(self.known)))
        for name in ended:
            del self.running[name]
        for each in self._twins.round_of(self._number, *events):
            if verdict(each) == "start":
                self.running[each.job_id] = held_by(self.known[each.job_id], each)
                self.ever.add(each.job_id)
        self._number += 1
        self._require_limits()

    def _require_limits(self) -> None:
        held = [*self.running.values()]
        for name, (of_all, of_each) in self._most.items():
            require_within(of_all, held, name, "")
            for user in USERS:
                require_within(of_each, held, name, user)

    def can_start(self, asks: Asked) -> bool:
        """Return whether a job fits alone within the limits of one of its partitions; of a gang
        within those of each, whose nodes come together."""
        most = {
            name: min(len(nodes), *(limit.get("most_nodes", 9) for limit in self._most[name]))
            for name, nodes in NODES_OF.items()
        }
        if asks.is_gang:
            first, *others = asks.partitions
            return most[first] >= 1 and any(most[name] >= asks.nodes - 1 for name in others)
        return any(most[name] >= asks.nodes for name in asks.partitions)


@given(
    st.lists(st.lists(ASKED, max_size=4), min_size=1, max_size=5),
    st.fixed_dictionaries({name: st.tuples(MOST, MOST) for name in NAMES}),
    st.randoms(use_true_random=False),
)
def test_no_partition_holds_more_than_its_limits_and_all_jobs_that_can_start_do(
    batches: list[list[Asked]],
    most: dict[str, tuple[dict[str, int], dict[str, int]]],
    rng: Random,
) -> None:
    play = Play(most)
    for batch in batches:
        play.round_of(batch, rng.sample(sorted(play.running), rng.randint(0, len(play.running))))
    while play.running:
        play.round_of([], rng.sample(sorted(play.running), rng.randint(1, len(play.running))))
    assert play.ever == {name for name, asks in play.known.items() if play.can_start(asks)}
