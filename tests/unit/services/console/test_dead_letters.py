"""Not every dead letter may go back to where its record was."""

import pytest
from coplace.v1.control_pb2 import DeadLetter

from services.console.dead_letters import CannotReplayError, DeadLetters
from shared.messaging.deployment import Deployment
from shared.runtime.settings import Settings

LETTERS = DeadLetters(Deployment.of(Settings()))


def test_a_record_of_which_only_the_head_is_kept_cannot_be_replayed() -> None:
    letter = DeadLetter(topic="jobs.events", value=b"head", value_size_bytes=5)
    with pytest.raises(CannotReplayError, match="had 5 bytes, 4 are kept"):
        LETTERS.replay(letter)


def test_nothing_is_appended_behind_the_back_of_the_sequencer() -> None:
    letter = DeadLetter(topic="placement.inputs", value=b"whole", value_size_bytes=5)
    with pytest.raises(CannotReplayError, match=r"only the sequencer writes placement\.inputs"):
        LETTERS.replay(letter)
