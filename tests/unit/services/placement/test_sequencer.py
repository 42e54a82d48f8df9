"""The sequencer gives a round one order, whatever order it arrived in."""

from dataclasses import replace

import pytest
from coplace.v1.placement_pb2 import PlacementDecided
from google.protobuf import descriptor_pool, message_factory
from hypothesis import given
from hypothesis import strategies as st

from coplace_client.errors import RejectedError
from services.placement.app import SEQUENCED
from services.placement.sequencer import CONSUMES, Sequencer
from shared.catalogue.digest import Model, model_sha256
from shared.catalogue.event import Event
from shared.catalogue.policy_settings import PolicySettings
from shared.catalogue.topics import load_topics
from shared.placement.processor.placement import Placement
from shared.streams.stages.provenance import PROVENANCE_KEY
from shared.streams.stages.stage import AlreadyAppliedError, Round
from tests.unit.services.changelog import interrupted, state_of
from tests.unit.shared.placement.region import (
    T0_US,
    coefficients,
    decisions,
    declared,
    feed,
    finished,
    models,
    power,
    started,
    submitted,
)

ROUND = Round(0, T0_US + 30_000_000)
EVENTS = [
    *models(),
    *(submitted(f"job-{n}", T0_US + n % 3) for n in range(6)),
    *(finished(f"job-{n}", T0_US + n % 3) for n in range(6)),
]


def sequenced(sequencer: Sequencer) -> list[Event]:
    return [publish.event for publish in sequencer.end_round(ROUND)]


def test_completions_are_before_submissions_of_the_same_time_and_clusters_before_both() -> None:
    sequencer = Sequencer({})
    feed(
        sequencer, [submitted("a"), finished("b", T0_US), declared("p1"), submitted("c", T0_US - 1)]
    )
    ids = [event.id.split("/")[:2] for event in sequenced(sequencer)]
    assert ids == [["submitted", "c"], ["declared", "p1"], ["finished", "b"], ["submitted", "a"]]


def test_a_job_that_came_and_ended_in_one_second_is_submitted_first_and_holds_no_nodes() -> None:
    placement = Placement({}, PolicySettings(), 7.0)
    feed(placement, models())
    sequencer = Sequencer({})
    start = PlacementDecided(job_id="a", attempt=1, cluster="p1", node_indices=[0])
    start.decided_at_us = T0_US
    feed(sequencer, [submitted("a"), started(start), finished("a", T0_US), submitted("b")])
    events = sequenced(sequencer)
    ids = ["submitted/a/1", "submitted/b/1", "finished/a/1", "started/a/1"]
    assert [event.id for event in events] == ids
    feed(placement, events[:3])
    with pytest.raises(AlreadyAppliedError):
        placement.handle(events[3])
    [decided] = decisions(placement.end_round(ROUND))
    assert (decided.job_id, list(decided.node_indices)) == ("b", [0])


def test_jobs_of_one_second_go_in_the_order_of_their_numbers() -> None:
    """Resource managers count whole seconds, and write numbers without zeros in front."""
    for names in (("s/p/4/7", "s/p/22/7"), ("s/p/9", "s/p/10"), ("a2", "a10"), ("a02", "a2")):
        sequencer = Sequencer({})
        feed(sequencer, [submitted(name, T0_US) for name in reversed(names)])
        ids = [event.id.removeprefix("submitted/") for event in sequenced(sequencer)]
        assert [each.rpartition("/")[0] for each in ids] == [*names]


def test_jobs_of_one_second_go_by_the_sequence_of_their_manager_and_those_without_first() -> None:
    jobs = [
        submitted("z", T0_US, sequence="9"),
        submitted("a", T0_US, sequence="10"),
        submitted("b", T0_US, sequence="10"),
        submitted("y", T0_US),
        submitted("c", T0_US + 1, sequence="1"),
    ]
    for told in (jobs, jobs[::-1]):
        sequencer = Sequencer({})
        feed(sequencer, told)
        assert [event.id.split("/")[1] for event in sequenced(sequencer)] == [*"yzabc"]


@given(st.permutations(EVENTS), st.integers(0, len(EVENTS)))
def test_the_order_depends_neither_on_the_arrival_nor_on_a_restart(
    events: list[Event], restart: int
) -> None:
    expected, arrived = Sequencer({}), interrupted(Sequencer, events, restart)
    feed(expected, EVENTS)
    assert sequenced(arrived) == sequenced(expected)
    assert expected.changes() == {}  # what came and went within a batch is never written
    dropped = arrived.changes()
    assert (len(dropped), any(dropped.values())) == (restart, False)


def test_an_event_goes_out_as_it_came_in_under_the_key_of_the_region() -> None:
    event = submitted("a", traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
    sequencer = Sequencer({})
    feed(sequencer, [event])
    [out] = sequenced(sequencer)
    assert (out.id, out.source, out.time_us) == (event.id, event.source, event.time_us)
    assert (out.payload, out.traceparent, out.key) == (event.payload, event.traceparent, "region")


def test_a_copy_within_a_round_is_dropped() -> None:
    sequencer = Sequencer({})
    feed(sequencer, [submitted("a")])
    with pytest.raises(AlreadyAppliedError):
        sequencer.handle(submitted("a"))
    assert len(sequenced(sequencer)) == 1
    assert sequenced(sequencer) == []


@pytest.mark.parametrize("model", [power(), coefficients("p1")])
def test_a_model_whose_hash_is_not_that_of_its_content_is_rejected(model: Event) -> None:
    payload = type(model.payload)()
    payload.CopyFrom(model.payload)
    payload.version = "another@1"  # type: ignore[attr-defined]
    sequencer = Sequencer({})
    with pytest.raises(RejectedError, match=r"sha256.*another@1"):
        sequencer.handle(Event("x", "test", T0_US, "power", payload))
    assert sequenced(sequencer) == []


def test_the_largest_event_of_a_topic_fits_into_the_changelog() -> None:
    nodes = [f"p1-{index:05d}" for index in range(100_000)]
    start = started(PlacementDecided(job_id="a", attempt=1, cluster="p1"), nodes=nodes)
    sequencer = Sequencer({})
    feed(sequencer, [start])
    [value] = sequencer.changes().values()
    assert value is not None
    assert len(value) < start.payload.ByteSize() + 1_000
    assert sequenced(Sequencer({"held|": value})) == sequenced(sequencer)


@pytest.mark.parametrize("event_id", ["coplace.v1.RoundEnded", "coplace.wake", PROVENANCE_KEY])
def test_an_event_may_be_called_like_what_the_unit_keeps_for_itself(event_id: str) -> None:
    event = replace(submitted("a"), id=event_id)
    sequencer = Sequencer({})
    feed(sequencer, [event])
    state = state_of(sequencer)
    assert event_id not in state
    assert sequenced(Sequencer(state)) == [replace(event, key="region")]


def test_every_message_of_its_topics_is_put_into_an_order_or_skipped() -> None:
    topics, pool = load_topics(), descriptor_pool.Default()
    names = {name for topic in SEQUENCED for name in topics[topic].messages}
    assert CONSUMES - names == {"coplace.v1.PlanProposed"} - names
    for name in sorted(names & CONSUMES):
        payload = message_factory.GetMessageClass(pool.FindMessageTypeByName(name))()
        if isinstance(payload, Model):
            payload.sha256 = model_sha256(payload)
        sequencer = Sequencer({})
        sequencer.handle(Event(name, "test", T0_US, "region", payload))
        assert [event.type for event in sequenced(sequencer)] == [name]
