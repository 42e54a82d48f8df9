"""What prediction writes of the largest that it accepts fits into records."""

from dataclasses import replace
from typing import Any

import pytest
from coplace.v1.jobs_pb2 import JobStarted
from coplace.v1.prediction_pb2 import NodePowerPublished
from google.protobuf.message import Message

from coplace_client.errors import RejectedError
from services.prediction.processor import MOST_NODE_MODELS, Prediction
from services.prediction.publish import node_power_event
from shared.catalogue.codec import MAX_MESSAGE_BYTES
from shared.catalogue.event import Event
from shared.domain.cluster import MOST_CLUSTERS
from shared.streams.stages.stage import Round
from tests.support.messaging import CODEC
from tests.support.sizes import DOUBLED, WIDE, require_carried
from tests.unit.services.prediction.support import declared, event, read, run


def named(number: int, name: str) -> str:
    """A name as long as one may be."""
    return f"{number:04d}{name}"[:256]


def changed(one: Event, **changes: Any) -> Event:
    payload: Message = type(one.payload)()
    payload.CopyFrom(one.payload)
    for field, value in changes.items():
        setattr(payload, field, value)
    return replace(one, payload=payload)


@pytest.mark.parametrize("name", [DOUBLED, WIDE])
def test_every_node_model_that_a_region_can_have_fits_into_the_power_model(name: str) -> None:
    prediction = Prediction({})
    for number in range(MOST_NODE_MODELS):
        list(prediction.handle(read(f"n{number}", 300.0, 1, named(number, name))))
    with pytest.raises(RejectedError, match="node_model: must be one of the 256"):
        prediction.handle(read("n", 300.0, 1, "one more"))
    published = list(prediction.end_round(Round(0, 1)))
    assert require_carried(prediction, published) < MAX_MESSAGE_BYTES


def test_a_region_has_so_many_clusters_and_no_more() -> None:
    prediction, one = Prediction({}), declared()
    for number in range(MOST_CLUSTERS):
        list(prediction.handle(changed(one, cluster=f"c{number}")))
    with pytest.raises(RejectedError, match="must be one of the 128"):
        prediction.handle(changed(one, cluster="one more"))


def test_factors_of_nodes_with_long_names_are_published_as_far_as_they_fit() -> None:
    factors = {(DOUBLED, named(number, DOUBLED)): 1 + number / 10_000 for number in range(9_000)}
    publish = node_power_event(factors, 9_000, Round(0, 1))
    found = publish.event.payload
    assert isinstance(found, NodePowerPublished)
    assert len(CODEC.encode(publish).value or b"") < MAX_MESSAGE_BYTES
    assert 900 < len(found.nodes) < 1_100
    assert list(found.nodes) == sorted(found.nodes)
    assert min(found.factors) > 1.78


def test_the_start_of_a_job_on_as_many_nodes_as_a_message_names_fits() -> None:
    prediction = Prediction({})
    submitted, _ = run(1, "app", 300.0)
    list(prediction.handle(submitted))
    names = [f'{number:05d}""' for number in range(52_000)]
    start = JobStarted(job_id=submitted.key, attempt=1, cluster="p1", nodes=names)
    list(prediction.handle(event("started", 1, submitted.key, start)))
    assert require_carried(prediction, ()) > 400_000
