from dataclasses import replace

import pytest

from shared.messaging.consistency import InconsistentError, at_start
from shared.messaging.mending import accepted, replayed
from shared.messaging.provenance import TopicIdentity
from tests.unit.shared.messaging.test_consistency import FOUND, IN, STATE, TOPICS, UNIT

AGAIN = {name: TopicIdentity(b"again", 4) for name in TOPICS}


def test_an_accepted_state_goes_on_where_it_was_made_up_to_whatever_the_group_says() -> None:
    found = replace(FOUND, committed={IN: 27}, commits=9)
    positions, provenance = accepted(UNIT, STATE, True, found)
    assert positions == {IN: 20}
    after = provenance.after(positions, {}, {})
    assert at_start(UNIT, after, True, replace(FOUND, commits=after.commits)) == []


def test_a_state_that_does_not_tell_goes_on_where_the_group_stands() -> None:
    positions, provenance = accepted(UNIT, None, True, FOUND)
    assert (positions, provenance.commits) == ({IN: 20}, 7)


def test_an_accepted_state_goes_on_within_what_replaced_topics_hold() -> None:
    shorter = replace(FOUND, topics=AGAIN, ends={IN: 12}, committed={})
    positions, provenance = accepted(UNIT, STATE, True, shorter)
    assert positions == {IN: 12}
    assert provenance.topics == AGAIN
    assert (provenance.last_read, provenance.written_to) == ({}, {})
    later, _ = accepted(UNIT, STATE, True, replace(FOUND, begins={IN: 25}))
    assert later == {IN: 25}


def test_nothing_is_accepted_without_a_state_or_with_other_counts() -> None:
    with pytest.raises(InconsistentError, match="holds no state of pricing/1"):
        accepted(UNIT, None, False, FOUND)
    six = {name: replace(identity, kafka_partitions=6) for name, identity in TOPICS.items()}
    with pytest.raises(InconsistentError, match="declared are 4"):
        accepted(UNIT, STATE, True, replace(FOUND, topics=six))


def test_a_replay_begins_where_the_inputs_do_and_counts_commits_on() -> None:
    positions, provenance = replayed(UNIT, None, replace(FOUND, begins={IN: 3}))
    assert positions == {IN: 3}
    assert (provenance.commits, provenance.positions) == (7, {})
