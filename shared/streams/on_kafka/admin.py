"""Topics and groups of a deployment on Kafka, for operators, the command line and start-up."""

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TypeVar

from kafka import KafkaAdminClient
from kafka.errors import (
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    NotCoordinatorError,
    TopicAlreadyExistsError,
    for_code,
)

from shared.catalogue.topics import Cleanup, TopicSpec, dead_letter_spec
from shared.streams.on_kafka.deployment import Deployment
from shared.streams.on_kafka.refusals import require_kafka_believes
from shared.streams.stages.stage import Stage
from shared.streams.stages.unit import unit_count

# Old state is of no use: compact it soon, or a restart reads all of it.
_CHANGELOG_SEGMENT_MS = 600_000
_COORDINATOR_TRIES = 20
_COORDINATOR_PAUSE_S = 0.25

T = TypeVar("T")


def when_coordinated(ask: Callable[[], T]) -> T:
    """Return what a group's coordinator answers. A broker that has just started, or never had a
    group, has none for a moment. Raises KafkaError when that lasts."""
    for _ in range(_COORDINATOR_TRIES):
        with suppress(
            CoordinatorNotAvailableError, CoordinatorLoadInProgressError, NotCoordinatorError
        ):
            return ask()
        time.sleep(_COORDINATOR_PAUSE_S)
    return ask()


def admin_client(deployment: Deployment) -> KafkaAdminClient:
    """Open a connection for the functions of this module; the caller closes it. Raises
    RefusedError."""
    require_kafka_believes(deployment.settings)
    return KafkaAdminClient(**deployment.connection)


def ensure_topics(
    client: KafkaAdminClient,
    deployment: Deployment,
    stages: Sequence[Stage] = (),
    names: Collection[str] | None = None,
) -> list[str]:
    """Create every topic, dead-letter queue and changelog that does not exist yet; with `names` of
    the topics these alone.

    Returns what was created. Raises a KafkaError for what the broker refuses.
    """
    wanted = wanted_topics(deployment, stages, names)
    existing = set(client.list_topics())
    missing = {name: options for name, options in wanted.items() if name not in existing}
    if missing:
        # Several processes may start at once: whoever comes second finds the topic there.
        _check(client.create_topics(missing, raise_errors=False))
        client.wait_for_topics(list(missing))
    return sorted(missing)


def wanted_topics(
    deployment: Deployment,
    stages: Sequence[Stage] = (),
    names: Collection[str] | None = None,
) -> Mapping[str, Mapping[str, object]]:
    """Return what `ensure_topics` creates where it is missing: `num_partitions` and `configs` by
    the name that Kafka knows."""
    specs = deployment.topics.specs
    wanted = _wanted(deployment, stages, specs if names is None else names)
    return {deployment.name(name): options for name, options in wanted}


def _wanted(
    deployment: Deployment, stages: Sequence[Stage], names: Collection[str]
) -> Iterable[tuple[str, Mapping[str, object]]]:
    topics = deployment.topics
    for spec in map(topics.spec, names):
        for each in (spec, dead_letter_spec(spec)):
            count = topics.kafka_partitions(each.name)
            yield each.name, _options(count, _configs(deployment, each))
    for stage in stages:
        configs = {
            "cleanup.policy": Cleanup.COMPACT.value,
            "segment.ms": str(_CHANGELOG_SEGMENT_MS),
            "max.message.bytes": str(deployment.max_record_bytes),
        }
        yield stage.changelog, _options(unit_count(stage, topics), configs)


def _options(kafka_partitions: int, configs: Mapping[str, str]) -> Mapping[str, object]:
    return {"num_partitions": kafka_partitions, "configs": configs}


def _configs(deployment: Deployment, spec: TopicSpec) -> dict[str, str]:
    retention_ms = -1 if spec.retention_s is None else spec.retention_s * 1_000
    return {
        "cleanup.policy": spec.cleanup.value,
        "retention.ms": str(retention_ms),
        "max.message.bytes": str(deployment.max_record_bytes),
    }


def _check(response: Mapping[str, object]) -> None:
    for topic in response["topics"]:  # type: ignore[attr-defined]
        error = for_code(topic["error_code"])
        if topic["error_code"] and error is not TopicAlreadyExistsError:
            raise error(f"{topic['name']}: {topic['error_message']}")
