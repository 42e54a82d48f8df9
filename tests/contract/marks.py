"""Which cases each change plays on real Kafka: the log in memory has all of them."""

from collections.abc import Collection
from typing import Final

import pytest

_BACKENDS: Final = ("memory", pytest.param("kafka", marks=pytest.mark.rest))
KAFKA_IN_REST: Final = pytest.mark.parametrize("backend", _BACKENDS, indirect=True)


def at_points(points: Collection[str], on_kafka: Collection[str]) -> pytest.MarkDecorator:
    """Return both logs at each point, of which each change plays Kafka at some."""
    in_memory = [pytest.param("memory", point, id=f"memory-{point}") for point in points]
    kafka = [
        pytest.param(
            *("kafka", point),
            marks=() if point in on_kafka else pytest.mark.rest,
            id=f"kafka-{point}",
        )
        for point in points
    ]
    return pytest.mark.parametrize(("backend", "point"), in_memory + kafka, indirect=["backend"])
