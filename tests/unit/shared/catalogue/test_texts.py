"""Texts are bounded, one by one and as lists."""

import pytest
from coplace.v1.energy_pb2 import AppIdMismatch, MetricDeviation
from coplace.v1.jobs_pb2 import JobStarted
from coplace.v1.placement_pb2 import Misfit, PlacementDecided
from coplace.v1.prediction_pb2 import PowerModelPublished
from coplace.v1.telemetry_pb2 import NodeSample, NodeSamples
from google.protobuf.message import Message

from coplace_client.errors import RejectedError
from shared.catalogue.texts import MOST_LIST_BYTES, MOST_TEXT_BYTES, require_short_texts, truncate

LONG = "x" * (MOST_TEXT_BYTES + 1)
EMOJI = "\N{SNOWMAN}" * (MOST_TEXT_BYTES // 3 + 1)


@pytest.mark.parametrize(
    ("message", "field"),
    [
        (NodeSamples(node_model=LONG), "node_model"),
        (NodeSamples(node_model=EMOJI), "node_model"),
        (AppIdMismatch(metrics=[MetricDeviation(metric=LONG)]), "metric"),
        (JobStarted(nodes=["n" * 97] * (MOST_LIST_BYTES // 100 + 1)), "nodes"),
        (PowerModelPublished(fallback_power_w={f"{n:0997d}": 1 for n in range(530)}), "fallback"),
    ],
)
def test_a_message_with_too_long_a_text_is_refused_by_the_name_of_the_field(
    message: Message, field: str
) -> None:
    with pytest.raises(RejectedError, match=rf"^{field}.* bytes of text, the limit is"):
        require_short_texts(message)


def test_texts_at_the_limit_pass() -> None:
    require_short_texts(NodeSamples(node="n" * MOST_TEXT_BYTES))
    require_short_texts(JobStarted(nodes=["n" * 97] * (MOST_LIST_BYTES // 100)))
    require_short_texts(NodeSamples(samples=[NodeSample(power_w=1)] * 50_000))


def test_words_are_cut_to_what_readers_take_and_names_are_not() -> None:
    decided = PlacementDecided(job_id="a", reason=EMOJI, misfits=[Misfit(reason=LONG), Misfit()])
    decided.instead_of.constraint = LONG
    assert truncate(decided)
    require_short_texts(decided)
    assert decided.reason == "\N{SNOWMAN}" * ((MOST_TEXT_BYTES - 4) // 3) + " ..."
    assert decided.misfits[0].reason == LONG[: MOST_TEXT_BYTES - 4] + " ..."
    assert not truncate(decided)
    assert not truncate(NodeSamples(node=LONG))
