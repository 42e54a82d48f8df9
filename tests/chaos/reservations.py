"""Nodes that are reserved or maintained."""

from collections.abc import Callable, Mapping
from typing import Final

from coplace.v1.control_pb2 import ReservationDeclared, ReservationRemoved

from tests.chaos.clock import HOUR_US, SECOND_US, some_time_us
from tests.chaos.events import ACCOUNTS, USERS, publish
from tests.chaos.places import names_of
from tests.chaos.start_terms import RESERVATIONS
from tests.chaos.world import World


def reserve(world: World) -> None:
    """Some nodes of a cluster are kept for a user, an account or nobody; or are so no more."""
    rng, now_us = world.rng, world.clock.now_us
    there = sorted(world.clusters.keys() - world.undeclared)
    if not there:
        return
    declared, name = world.clusters[rng.choice(there)], rng.choice(RESERVATIONS)
    subject, sequence = f"{declared.cluster}/{name}", f"{now_us}-{world.events}"
    if rng.random() < 0.3:
        removed = ReservationRemoved(cluster=declared.cluster, name=name, removed_at_us=now_us)
        publish(world, subject, sequence, reservation_removed=removed)
        return
    from_us = now_us + rng.choice([-1, 1, 1]) * some_time_us(rng, SECOND_US, HOUR_US)
    names = names_of(declared)
    count = rng.randint(1, len(names))
    how = rng.choice(["named", "named", "number", "all"])
    reserved = ReservationDeclared(
        cluster=declared.cluster,
        name=name,
        nodes=rng.sample(names, count) if how == "named" else [],
        node_count=count if how == "number" else 0,
        from_us=from_us,
        until_us=max(from_us, now_us) + some_time_us(rng, SECOND_US, HOUR_US),
        users=rng.choice([[], [], [rng.choice(USERS)]]),
        accounts=rng.choice([[], [], [rng.choice(ACCOUNTS)]]),
        reason="the fans are replaced",
        declared_at_us=now_us,
    )
    publish(world, subject, sequence, reservation_declared=reserved)


def remove_all(world: World) -> None:
    """Nothing is kept for anybody any more."""
    now_us = world.clock.now_us
    known = {
        (event.payload.cluster, event.payload.name): None
        for event in world.journal.events.values()
        if isinstance(event.payload, ReservationDeclared)
    }
    for cluster, name in known:
        removed = ReservationRemoved(cluster=cluster, name=name, removed_at_us=now_us)
        publish(world, f"{cluster}/{name}", f"{now_us}-calm", reservation_removed=removed)


KEPT: Final[Mapping[Callable[[World], None], float]] = {reserve: 4}
