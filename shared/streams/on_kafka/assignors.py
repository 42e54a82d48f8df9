"""Kafka group assignment by unit: all places of a unit go to the same member."""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from aiokafka.cluster import ClusterMetadata
from aiokafka.coordinator.assignors.abstract import AbstractPartitionAssignor
from aiokafka.coordinator.protocol import (
    ConsumerProtocolMemberAssignment,
    ConsumerProtocolMemberMetadata,
)

from shared.streams.stages.assignment import assign_units

_VERSION = 0


class KeyedUnits(AbstractPartitionAssignor):  # type: ignore[misc]
    """Unit n is Kafka partition n of every input."""

    name = "coplace.keyed"

    @classmethod
    def unit_of(cls, kafka_partition: int) -> int:
        """Return the unit that owns a Kafka partition of any input."""
        return kafka_partition

    @classmethod
    def assign(
        cls, cluster: ClusterMetadata, members: Mapping[str, ConsumerProtocolMemberMetadata]
    ) -> dict[str, ConsumerProtocolMemberAssignment]:
        """Assign the Kafka partitions to every member, by topic."""
        topics = sorted({topic for member in members.values() for topic in member.subscription})
        partitions = {topic: sorted(cluster.partitions_for_topic(topic) or ()) for topic in topics}
        units = 1 + max((cls.unit_of(n) for found in partitions.values() for n in found), default=0)
        owners = assign_units(units, members)
        owned: dict[str, dict[str, list[int]]] = {member: defaultdict(list) for member in members}
        for topic, numbers in partitions.items():
            for number in numbers:
                owned[owners[cls.unit_of(number)]][topic].append(number)
        return {
            member: ConsumerProtocolMemberAssignment(_VERSION, sorted(by_topic.items()), b"")
            for member, by_topic in owned.items()
        }

    @classmethod
    def metadata(cls, topics: Iterable[str]) -> ConsumerProtocolMemberMetadata:
        """Return what a member sends to the leader."""
        return ConsumerProtocolMemberMetadata(_VERSION, sorted(topics), b"")

    @classmethod
    def on_assignment(cls, assignment: ConsumerProtocolMemberAssignment) -> None:
        """Ignore the assignment: nothing is kept from one to the next."""


class SingleUnit(KeyedUnits):
    """Unit 0 is every Kafka partition; the other members are standbys."""

    name = "coplace.single"

    @classmethod
    def unit_of(cls, kafka_partition: int) -> int:
        """Return the one unit, 0, which has all Kafka partitions."""
        return 0
