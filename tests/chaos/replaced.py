"""What operators replace, so that state, positions and topics do not belong together any more; the
stages refuse, and the operator of `operators.py` does what they say."""

from services.pricing.accounts.adapters import LEDGER
from shared.catalogue.record import NewRecord
from shared.catalogue.topics import DLQ_PREFIX
from shared.streams.stages.stage import Stage
from tests.chaos.audit.evidence import charges_of, events_of, taken_since
from tests.chaos.clock import SECOND_US
from tests.chaos.world import INPUTS, World

# Ingest alone writes to these: a copy of them has the offsets of what was copied.
_COPIED = ("jobs.events", "commands", "telemetry.signatures", "telemetry.shutters")
_MOST_KAFKA_PARTITIONS = 6
_WHOLE = 1 << 60


def lose_a_changelog(world: World) -> None:
    """Somebody deletes a changelog under the stage; Kafka creates an empty one of its name. What
    was written before there were more Kafka partitions could not be read again."""
    service, stage = _some_stage(world)
    if world.deployment.settings.kafka_partitions != world.scale.kafka_partitions:
        return
    world.journal.pricing_forgot |= service == "pricing"
    world.log.recreate(stage.changelog)


def put_back_a_changelog(world: World) -> None:
    """Somebody puts an older backup of a changelog back."""
    service, stage = _some_stage(world)
    backup = world.log.backup(stage.changelog)
    _some_time_passes(world)
    world.stop(service)
    world.journal.pricing_forgot |= service == "pricing"
    world.log.put_back(stage.changelog, backup)


def put_back_the_inputs(world: World) -> None:
    """Somebody puts an older backup of placement's inputs back, and the sequencer has lost its
    state: only followers of its rounds know how many there were. It reads all again."""
    if world.deployment.settings.kafka_partitions != world.scale.kafka_partitions:
        return
    sequencer, placement = world.stages["placement"]
    backup = world.log.backup(INPUTS.topic)
    _some_time_passes(world)
    for service in ("placement", "planner"):
        world.stop(service)
    if world.log.read(INPUTS, world.log.committed(placement.name, INPUTS) or 0, 1):
        return  # what it has read before is read again: nobody could say what it knows
    journal, letters = world.journal, DLQ_PREFIX + INPUTS.topic
    journal.taken_before += taken_since(world)
    journal.letters_before = sum(1 for _ in events_of(world.log, world.codec, letters))
    world.log.put_back(INPUTS.topic, backup)
    world.log.recreate(sequencer.changelog)
    journal.inputs_end = world.log.end_offset(INPUTS)


def put_back_the_ledger(world: World) -> None:
    """Somebody restores an older backup of the charges: those since are lost to it."""
    backup = world.log.backup(LEDGER)
    _some_time_passes(world)
    world.stop("pricing")
    before = _charges(world)
    world.log.put_back(LEDGER, backup)
    world.journal.lost_charges |= before - _charges(world)


def refill_an_input(world: World) -> None:
    """A topic is deleted, created again, and filled from a copy."""
    topic = world.rng.choice(_COPIED)
    copied = [
        NewRecord(place, record.key, record.value, record.headers)
        for place in world.codec.topics.partitions(topic)
        for record in world.log.read(place, 0, _WHOLE)
    ]
    world.log.recreate(topic)
    world.log.append(copied)


def move_positions(world: World) -> None:
    """Somebody moves the positions of a group at rest."""
    service, stage = _some_stage(world)
    world.stop(service)
    for topic in stage.inputs:
        for place in world.codec.topics.partitions(topic):
            if position := world.log.committed(stage.name, place):
                world.log.set_position(stage.name, place, world.rng.randrange(position))


def expire_positions(world: World) -> None:
    """The positions of a group at rest expire."""
    service, stage = _some_stage(world)
    world.stop(service)
    world.log.forget_positions(stage.name)


def grow(world: World) -> None:
    """The topics get more Kafka partitions while jobs run."""
    before = world.deployment.settings.kafka_partitions
    if before < _MOST_KAFKA_PARTITIONS:
        world.grow(world.rng.randint(before + 1, _MOST_KAFKA_PARTITIONS))


def _some_stage(world: World) -> tuple[str, Stage]:
    """With its service."""
    service = world.rng.choice(sorted(world.stages))
    return service, world.rng.choice(world.stages[service])


def _some_time_passes(world: World) -> None:
    for _ in range(world.rng.randint(1, 5)):
        world.let_pass(10 * SECOND_US)


def _charges(world: World) -> set[tuple[str, int, int]]:
    return {
        (charge.job_id, charge.attempt, charge.revision)
        for charge in charges_of(world.log, world.codec)
    }
