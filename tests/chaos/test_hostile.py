"""What is distorted of a message stays what it was where seeds are recorded."""

import pytest
from coplace.v1 import control_pb2, jobs_pb2

from tests.chaos.episode import Episode
from tests.chaos.hostile import is_later
from tests.chaos.start_terms import START_TERMS
from tests.chaos.world import World


@pytest.mark.parametrize("term", sorted(START_TERMS))
def test_each_field_that_is_kept_from_distortion_is_one_of_its_message(term: str) -> None:
    message, name = term.split(".")
    module = jobs_pb2 if message in jobs_pb2.DESCRIPTOR.message_types_by_name else control_pb2
    assert name in module.DESCRIPTOR.message_types_by_name[message].fields_by_name


def test_a_name_that_an_older_message_had_before_is_distorted_there_as_before() -> None:
    plain, timed = _world(timed=False), _world(timed=True)
    assert is_later("JobSubmitted", "qos", plain)
    assert not is_later("JobSubmitted", "qos", timed)
    assert not is_later("JobFinished", "qos", plain)


def _world(*, timed: bool) -> World:
    episode = Episode(1, timed=timed)
    episode.world.close()
    return episode.world
