"""All places of a unit go to one member, and every unit has one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.streams.on_kafka.assignors import KeyedUnits, SingleUnit
from shared.streams.stages.assignment import assign_units

MEMBERS = st.sets(st.text("abc", min_size=1, max_size=4), min_size=1, max_size=6)


class Cluster:
    """Topics with their Kafka partitions."""

    def __init__(self, counts: dict[str, int]) -> None:
        self._counts = counts

    def partitions_for_topic(self, topic: str) -> set[int]:
        """As the client's metadata says."""
        return set(range(self._counts[topic]))


def assigned(
    assignor: type[KeyedUnits], counts: dict[str, int], members: set[str]
) -> dict[str, set[tuple[str, int]]]:
    """Topic and Kafka partition by member."""
    metadata = {member: assignor.metadata(counts) for member in members}
    assert all(each.subscription == sorted(counts) for each in metadata.values())
    found = assignor.assign(Cluster(counts), metadata)
    return {
        member: {(each.topic, each.partition) for each in assignment.partitions()}
        for member, assignment in found.items()
    }


@given(units=st.integers(1, 24), members=MEMBERS)
def test_units_spread_evenly(units: int, members: set[str]) -> None:
    owners = list(assign_units(units, members).values())
    shares = [owners.count(member) for member in members]
    assert max(shares) - min(shares) <= 1
    with pytest.raises(ValueError, match="without members"):
        assign_units(units, [])


@given(units=st.integers(1, 12), members=MEMBERS)
def test_a_unit_gets_its_kafka_partition_of_every_topic(units: int, members: set[str]) -> None:
    found = assigned(KeyedUnits, {"jobs": units, "shutters": units}, members)
    assert set(found) == members
    for places in found.values():
        numbers = {number for _, number in places}
        assert places == {(topic, n) for topic in ("jobs", "shutters") for n in numbers}
    assert sum(map(len, found.values())) == 2 * units


@given(members=MEMBERS)
def test_a_single_unit_gets_everything_and_the_others_are_standbys(members: set[str]) -> None:
    found = assigned(SingleUnit, {"jobs": 4, "commands": 1}, members)
    assert sorted(map(len, found.values())) == [0] * (len(members) - 1) + [5]
