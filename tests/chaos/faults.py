"""What goes wrong. To add a fault, write a function of the world that does it once, and give it a
weight in FAULTS."""

from collections.abc import Callable, Mapping
from typing import Final

from coplace.v1.control_pb2 import RoundEnded

from shared.catalogue.event import Event
from shared.catalogue.record import TopicPartition
from shared.streams.stages.hooks import POINTS
from tests.chaos import hostile, replaced
from tests.chaos.clock import DAY_US, HOUR_US, SECOND_US, some_time_us
from tests.chaos.managers import DECISIONS
from tests.chaos.workers import Fate
from tests.chaos.world import INPUTS, World


def crash_between_steps(world: World) -> None:
    """A process is killed between two steps of its next commit."""
    world.rng.choice(world.workers).arm(world.rng.choice(POINTS), Fate.CRASH)


def stall_between_steps(world: World) -> None:
    """A process stops between two steps; the others take over; it returns as a zombie."""
    world.rng.choice(world.workers).arm(world.rng.choice(POINTS), Fate.STALL)


def kill(world: World) -> None:
    """A process is killed between two batches; its session lasts on or ends with it."""
    world.rng.choice(world.workers).kill(is_expelled=world.rng.random() < 0.5)


def copy(world: World) -> None:
    """A client that got no answer sends again what arrived long ago."""
    if world.network.sent:
        envelope = world.rng.choice(world.network.sent)
        world.network.send(envelope, some_time_us(world.rng, 1000, HOUR_US))


def repeat_decisions(world: World) -> None:
    """Resource managers restart behind where they were."""
    for partition in world.codec.topics.partitions(DECISIONS):
        world.managers.rewind(partition, world.rng.randint(1, 50))


def silence(world: World) -> None:
    """A resource manager neither starts nor ends nor reports anything for a while."""
    if world.managers.found:
        manager = world.managers.found[world.rng.choice(sorted(world.managers.found))]
        for_us = some_time_us(world.rng, SECOND_US, HOUR_US)
        manager.temper.silent_until_us = world.clock.now_us + for_us


def sloth(world: World) -> None:
    """A resource manager takes its time to start, or to report."""
    if world.managers.found:
        manager = world.managers.found[world.rng.choice(sorted(world.managers.found))]
        manager.temper.start_within_us = some_time_us(world.rng, SECOND_US, 1000 * SECOND_US)
        manager.temper.report_within_us = some_time_us(world.rng, SECOND_US, 1000 * SECOND_US)


def flush_redis(world: World) -> None:
    """Redis loses everything."""
    world.accounts.flush()


def restore_redis(world: World) -> None:
    """Redis is what it was some time ago."""
    backup = world.accounts.snapshot()
    for _ in range(world.rng.randint(1, 5)):
        world.let_pass(10 * SECOND_US)
        world.accounts.step()
    world.accounts.restore(backup)


def kill_accounts(world: World) -> None:
    """The process that keeps balances starts anew."""
    world.accounts.restart()


def stall_accounts(world: World) -> None:
    """The process that keeps balances returns as a zombie with an old batch."""
    world.accounts.stall()
    for _ in range(world.rng.randint(0, 3)):
        world.let_pass(10 * SECOND_US)
        world.accounts.step()
    world.accounts.resume()


def compact(world: World) -> None:
    """Kafka compacts the changelogs."""
    for partition in world.log.partitions():
        if partition.topic.startswith("changelog."):
            world.log.compact(partition)


def retain(world: World) -> None:
    """Kafka deletes what every group has read of a telemetry topic."""
    for partition in (TopicPartition("telemetry.nodes", 0), TopicPartition("telemetry.nodes", 1)):
        world.log.delete_before(partition, world.log.position("prediction.nodes", partition))


def power_off_and_seize(world: World) -> None:
    """The nodes of a cluster lose their power; an operator takes back what was granted there."""
    if not world.managers.found:
        return
    manager = world.managers.found[world.rng.choice(sorted(world.managers.found))]
    world.operator.vouch(manager.power_off())


def forge_a_barrier(world: World) -> None:
    """Somebody ends a round of his own, far ahead or long ago, perhaps under the right name."""
    rng, topic = world.rng, world.rng.choice(["jobs.events", "commands", "placement.inputs"])
    barrier = RoundEnded(
        round=rng.choice([0, 1, 10**6, 2**64 - 1]),
        ended_at_us=max(0, world.clock.now_us + rng.choice([-DAY_US, -1, 1, DAY_US, 10**15])),
    )
    source = rng.choice(["hostile", "ingest", "placement.sequencer.0"])
    if source.startswith(topic.removesuffix(".inputs")) and not world.log.committed(*PLACEMENT):
        return  # the number of the first barrier of all is its writer's word
    event = Event(f"{source}/forged/{world.events}", source, barrier.ended_at_us, "", barrier)
    partition = rng.choice(world.codec.topics.partitions(topic))
    world.log.append(world.codec.encode_barrier(partition, event))


def jump_clocks(world: World) -> None:
    """The wall clock of one host, or of all, is wrong for a while and is set right again."""
    rng = world.rng
    by_us, for_us = rng.choice(
        [
            (HOUR_US, 12 * SECOND_US),
            (10 * 365 * DAY_US, 5 * SECOND_US),
            (-HOUR_US, 12 * SECOND_US),
            (rng.choice([-1, 1]) * some_time_us(rng, 1000, HOUR_US), 300 * SECOND_US),
        ]
    )
    hosts = world.hosts if rng.random() < 0.5 else [rng.choice(world.hosts)]
    world.clock.wrong_us.update(dict.fromkeys(hosts, by_us))
    until_us = world.clock.now_us + for_us
    while world.clock.now_us < until_us:
        world.let_pass(max(SECOND_US, until_us - world.clock.now_us))
    for host in hosts:
        world.clock.wrong_us.pop(host, None)


def skip_time(world: World) -> None:
    """Nothing happens for long."""
    world.clock.advance(some_time_us(world.rng, HOUR_US, DAY_US))


PLACEMENT: Final = ("placement", INPUTS)

# These only prepare a fault; it counts when it happens.
ARMING: Final = (crash_between_steps, stall_between_steps)

Fault = Callable[[World], None]
FAULTS: Final[Mapping[Fault, float]] = {
    crash_between_steps: 30,
    stall_between_steps: 10,
    kill: 10,
    copy: 30,
    hostile.at_the_door: 15,
    hostile.into_a_topic: 10,
    hostile.past_the_door: 10,
    hostile.poison: 1,
    hostile.deadly: 1,
    repeat_decisions: 5,
    silence: 3,
    sloth: 3,
    flush_redis: 1,
    restore_redis: 1,
    kill_accounts: 3,
    stall_accounts: 2,
    compact: 1,
    retain: 1,
    power_off_and_seize: 2,
    forge_a_barrier: 3,
    jump_clocks: 1,
    replaced.lose_a_changelog: 0.2,
    replaced.put_back_the_inputs: 0.1,
    replaced.put_back_a_changelog: 0.3,
    replaced.put_back_the_ledger: 0.3,
    replaced.refill_an_input: 0.3,
    replaced.move_positions: 0.3,
    replaced.expire_positions: 0.3,
    replaced.grow: 0.3,
    skip_time: 0.5,
}
