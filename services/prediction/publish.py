"""Models as events. A version is `{model}@{round}`, and its content never changes."""

from collections.abc import Iterator, Mapping
from typing import Final

from coplace.v1.prediction_pb2 import (
    DegradationModelPublished,
    NodeMetersRead,
    NodePowerPublished,
    PairTreesChosen,
    PowerHistoryUpdated,
    PowerModelPublished,
    PowerTreesChosen,
    RunningPowerMeasured,
    RunPowerPredicted,
)
from google.protobuf.message import Message

from services.prediction.model import TrainedWeights
from shared.catalogue.digest import model_sha256
from shared.catalogue.event import Event, Publish
from shared.catalogue.payloads.power_history import kind_of
from shared.models import degradation
from shared.streams.stages.stage import Round

SOURCE: Final = "prediction"
OUTPUT: Final = "prediction.models"
POWER_OUTPUT: Final = "prediction.power"
POWER: Final = "power"
DEGRADATION: Final = "degradation"
NODE_POWER: Final = "node-power"
# 10,000 nodes of names as they are; the number and what surrounds the names take 14.
MOST_FACTORS_BYTES: Final = 524_288
_FACTOR_BYTES: Final = 14


def power_event(fallback_power_w: Mapping[str, float], ended: Round) -> Publish:
    """Return the event of a version of what nodes draw where no similar job is known."""
    version = f"{POWER}@{ended.number}"
    payload = PowerModelPublished(version=version, fallback_power_w=fallback_power_w)
    return _published(POWER, payload, ended)


def power_history_event(message: PowerHistoryUpdated, ended: Round) -> Publish:
    """Return the event of the rows that finished jobs of a kind replaced."""
    key = "|".join(map(str, kind_of(message)))
    return _told(POWER_OUTPUT, message, str(message.number), key, ended)


def trees_event(message: Message, model: str, ended: Round) -> Publish:
    """Return the event of a version of a model of trees, or of a choice of one; of each one at most
    a round."""
    if isinstance(message, PowerTreesChosen | PairTreesChosen):
        message.sha256 = model_sha256(message)
    version = message.version  # type: ignore[attr-defined]
    return _told(OUTPUT, message, f"{version}/{ended.number}", model, ended)


def running_power_event(message: RunningPowerMeasured, ended: Round) -> Publish:
    """Return the event of what a running job draws."""
    name = f"{message.job_id}/{message.attempt}/{message.measured_at_us}"
    return _told(POWER_OUTPUT, message, name, message.job_id, ended)


def run_power_event(message: RunPowerPredicted, ended: Round) -> Publish:
    """Return the event of what was predicted of a run whose energy is not believed."""
    return _told(
        POWER_OUTPUT, message, f"{message.job_id}/{message.attempt}", message.job_id, ended
    )


def meters_read_event(message: NodeMetersRead, ended: Round) -> Publish:
    """Return the event of the nodes of a cluster whose meters were read."""
    name = f"{message.cluster}/{message.told_at_us}"
    return _told(POWER_OUTPUT, message, name, message.cluster, ended)


def degradation_event(trained: TrainedWeights | None, training_pairs: int, ended: Round) -> Publish:
    """Return the event of a version of the degradation model; of the declared prior where nothing
    was trained."""
    payload = DegradationModelPublished(
        version=f"{DEGRADATION}@{ended.number}",
        features=degradation.FEATURES,
        weights=trained.weights if trained else degradation.PRIOR_WEIGHTS,
        training_pairs=training_pairs,
        residual=trained.residual if trained else 0.0,
    )
    return _published(DEGRADATION, payload, ended)


def node_power_event(
    factors: Mapping[tuple[str, str], float], training_readings: int, ended: Round
) -> Publish:
    """Return the event of a version of the factors of nodes, which are named by cluster and node:
    of those that are furthest from 1, as many as fit into a message. What is not listed counts as
    1."""
    table = sorted(_furthest(factors))
    payload = NodePowerPublished(
        version=f"{NODE_POWER}@{ended.number}",
        clusters=[cluster for (cluster, _), _ in table],
        nodes=[node for (_, node), _ in table],
        factors=[factor for _, factor in table],
        training_readings=training_readings,
    )
    return _published(NODE_POWER, payload, ended)


def _furthest(factors: Mapping[tuple[str, str], float]) -> Iterator[tuple[tuple[str, str], float]]:
    room_bytes = MOST_FACTORS_BYTES
    order = sorted(factors.items(), key=lambda row: (-abs(row[1] - 1), row[0]))
    for (cluster, node), factor in order:
        room_bytes -= len(cluster.encode()) + len(node.encode()) + _FACTOR_BYTES
        if room_bytes < 0:
            return
        yield (cluster, node), factor


def _published(
    name: str,
    payload: PowerModelPublished | DegradationModelPublished | NodePowerPublished,
    ended: Round,
) -> Publish:
    payload.sha256 = model_sha256(payload)
    return _told(OUTPUT, payload, f"{name}/{ended.number}", name, ended)


def _told(topic: str, message: Message, name: str, key: str, ended: Round) -> Publish:
    """An event of the end of a round; `name` distinguishes it from others of its type."""
    event = Event(
        id=f"{SOURCE}/{message.DESCRIPTOR.full_name}/{name}",
        source=SOURCE,
        time_us=ended.ended_at_us,
        key=key,
        payload=message,
    )
    return Publish(topic, event)
