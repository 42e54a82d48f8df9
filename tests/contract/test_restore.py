"""What operators do after data were replaced, on real Kafka."""

import pytest

from services.console import restore
from shared.messaging.consistency import InconsistentError
from shared.messaging.record import Place
from tests.contract.backends import Plan
from tests.contract.on_kafka import KafkaBackend
from tests.contract.test_delivery import ROUNDS, outputs, rounds_closed, state, undisturbed, work
from tests.contract.test_replaced_data import CHANGELOG, INPUT, worked
from tests.support.messaging import counting


def test_a_lost_state_is_made_anew_from_the_inputs_and_rounds_go_on(
    on_kafka: KafkaBackend,
) -> None:
    rest = worked(on_kafka)
    once = outputs(on_kafka)
    on_kafka.recreate(CHANGELOG)
    with pytest.raises(InconsistentError, match="holds no state"):
        list(restore.accept(on_kafka.deployment, counting()))
    told = list(restore.replay(on_kafka.deployment, counting()))
    assert told[2] == "counting/2 reads on at jobs.events/2 0"
    assert on_kafka.inconsistencies() == []
    on_kafka.append(rest)
    on_kafka.start(Plan())
    on_kafka.until(rounds_closed(on_kafka, ROUNDS))
    found, expected = state(on_kafka), undisturbed(work())[1]
    assert found == expected
    for first, both in zip(once, outputs(on_kafka), strict=True):
        charges = [one for one in first if one[0].startswith("c/")]
        assert both[: len(first)] == first
        assert both[len(first) : len(first) + len(charges)] == charges, "copies, by id and content"


def test_positions_that_were_moved_go_back_to_those_of_the_state(on_kafka: KafkaBackend) -> None:
    rest = worked(on_kafka)
    on_kafka.set_position("counting", Place(INPUT, 0), 1)
    on_kafka.append(rest)
    assert len(list(restore.accept(on_kafka.deployment, counting()))) == 4
    assert on_kafka.inconsistencies() == []
    on_kafka.start(Plan())
    on_kafka.until(rounds_closed(on_kafka, ROUNDS))
    assert (outputs(on_kafka), state(on_kafka)) == undisturbed(work())


def test_a_stage_that_runs_is_not_mended(on_kafka: KafkaBackend) -> None:
    on_kafka.append(work()[: len(work()) // ROUNDS])
    on_kafka.start(Plan())
    on_kafka.until(rounds_closed(on_kafka, 1))
    with pytest.raises(ValueError, match="stop its processes"):
        restore.require_stopped(on_kafka.deployment, counting())
