"""What the demo and the simulation with faults use."""

import pytest

from cli.stages import PLANNER, SERVICES, every_stage, stages_of
from coplace_testing import Region
from coplace_testing.services import INGEST_TOPICS
from lab.emulator.adapters import MARKED
from shared.catalogue.record import TopicPartition
from shared.process.settings import Settings
from tests.unit.coplace_testing.jobs import job


def test_the_emulator_ends_rounds_in_all_that_ingest_fills() -> None:
    assert sorted(MARKED) == INGEST_TOPICS


def test_a_service_without_stages_is_told_with_those_that_have_some() -> None:
    with pytest.raises(
        ValueError, match="'ingest' is not a service with stages: known are energy, "
    ):
        stages_of("ingest", Settings())
    names = [stage.name for stage in every_stage(Settings())]
    of_each = [stages_of(service, Settings()) for service in (*SERVICES, PLANNER)]
    assert names == [stage.name for stages in of_each for stage in stages]


def test_a_reader_reads_on_and_again_what_it_is_taken_back() -> None:
    region = Region()
    reader = region._services.reader("jobs.events")
    region.send(*(job(region, number) for number in range(3)))
    ids = [event.id for event in reader.read()]
    assert len(ids) == 3
    assert [*reader.read()] == []
    partition = TopicPartition("jobs.events", 0)
    reader.rewind(partition, 2)
    assert [event.id for event in reader.read()] == ids[1:]
    reader.rewind(partition, 9)
    assert [event.id for event in reader.read()] == ids
