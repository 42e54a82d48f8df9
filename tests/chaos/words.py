"""What managers and operators say where jobs ask for all that they can: how many licences there
are, who is alive, whose job goes first, and what a quality of service may have."""

from collections.abc import Callable, Mapping
from random import Random
from typing import Final

from coplace.v1.control_pb2 import (
    LICENCE_SCOPE_CLUSTER,
    LICENCE_SCOPE_REGION,
    LICENCE_SCOPE_SITE,
    LIMIT_SUBJECT_ACCOUNT,
    LIMIT_SUBJECT_QOS,
    LIMIT_SUBJECT_UNSPECIFIED,
    LIMIT_SUBJECT_USER,
    LicencesDeclared,
    LimitsDeclared,
    ManagerAlive,
)
from coplace.v1.jobs_pb2 import JobsReordered

from shared.catalogue.policy_declarations import declaration_of
from shared.catalogue.policy_settings import DECLARABLE
from shared.domain.queue_discipline import QueueDiscipline
from shared.domain.queue_order import QueueOrder
from shared.domain.runtimes import Runtimes
from tests.chaos.asks import LICENCES, QOS, SITES
from tests.chaos.clock import DAY_US, SECOND_US, some_time_us
from tests.chaos.events import ACCOUNTS, USERS, cap, limit, publish
from tests.chaos.squeezes import squeeze
from tests.chaos.world import World

_DAY_S: Final = 86_400.0
_PLENTY: Final = 100_000
_OF_LIMITS: Final = (
    (LIMIT_SUBJECT_ACCOUNT, ACCOUNTS, (LIMIT_SUBJECT_UNSPECIFIED, LIMIT_SUBJECT_USER)),
    (LIMIT_SUBJECT_USER, USERS, (LIMIT_SUBJECT_UNSPECIFIED,)),
    (
        LIMIT_SUBJECT_QOS,
        QOS,
        (LIMIT_SUBJECT_UNSPECIFIED, LIMIT_SUBJECT_USER, LIMIT_SUBJECT_ACCOUNT),
    ),
)


def license_some(world: World) -> None:
    """So many licences are there from now on, or the name is removed."""
    rng, now_us = world.rng, world.clock.now_us
    scope = rng.choice([LICENCE_SCOPE_CLUSTER, LICENCE_SCOPE_SITE, LICENCE_SCOPE_REGION])
    places = {
        LICENCE_SCOPE_CLUSTER: sorted(world.clusters),
        LICENCE_SCOPE_SITE: sorted({*SITES.values()}),
    }
    place, name = rng.choice(places.get(scope) or [""]), rng.choice(LICENCES)
    declared = LicencesDeclared(scope=scope, place=place, name=name, declared_at_us=now_us)
    if rng.random() < 0.85:
        declared.count = rng.choice([0, 2, 2, 4, 8])
    publish(world, f"{scope}/{place}/{name}", _sequence(world), licences_declared=declared)


def license_all(world: World, count: int) -> None:
    """So many licences of each name are there for all jobs."""
    now_us = world.clock.now_us
    for name in LICENCES:
        declared = LicencesDeclared(
            scope=LICENCE_SCOPE_REGION, name=name, count=count, declared_at_us=now_us
        )
        publish(world, name, f"{now_us}-{count}", licences_declared=declared)


def live_on(world: World) -> None:
    """A resource manager says that it is there, for how long without another word."""
    rng, now_us = world.rng, world.clock.now_us
    if world.clusters:
        name = rng.choice(sorted(world.clusters))
        alive = ManagerAlive(
            manager=f"{rng.choice(['slurm', 'slurm', 'its successor'])} of {name}",
            clusters=[name],
            silent_after_s=some_time_us(rng, 60 * SECOND_US, DAY_US) / SECOND_US,
            alive_at_us=now_us,
        )
        publish(world, alive.manager, _sequence(world), manager_alive=alive)


def reorder(world: World) -> None:
    """A resource manager orders its jobs anew; some of those that it names are not its own."""
    rng = world.rng
    jobs = list(world.journal.submissions)[-60:]
    if not jobs:
        return
    named = rng.sample(jobs, min(len(jobs), rng.choice([1, 5, 20])))
    clusters = rng.sample(sorted(world.clusters), rng.randint(1, len(world.clusters)))
    reordered = JobsReordered(
        manager="slurm",
        clusters=clusters,
        job_ids=named,
        manager_priorities=[rng.choice([0, 1, 2, 3, 9]) for _ in named],
        reordered_at_us=world.clock.now_us,
    )
    publish(world, "slurm", _sequence(world), jobs_reordered=reordered)


def choose_order(world: World) -> None:
    """Managers own the order of what waits, or Coplace does; and what may pass what waits is drawn
    by itself, so that no other draw moves."""
    rng = Random(f"passing {world.clock.now_us}")
    chosen = {
        "order": world.rng.choice([QueueOrder.MANAGER, QueueOrder.MANAGER, QueueOrder.COPLACE]),
        "discipline": rng.choice(
            [QueueDiscipline.EASY, QueueDiscipline.EASY, QueueDiscipline.SLURM]
        ),
        "runtimes": rng.choice([Runtimes.REQUESTED, Runtimes.REQUESTED, Runtimes.PREDICTED]),
        "passing_share": rng.choice([0.5, 1.0]),
    }
    values = {name: DECLARABLE[name].write(value) for name, value in chosen.items()}
    declared = declaration_of(values, [], "users know it", world.clock.now_us)
    publish(world, "policy", _sequence(world), policy_declared=declared)


def limit_all(world: World) -> None:
    """What a user, an account or a QOS may have at once, together or each within it."""
    rng = world.rng
    subject, names, within = rng.choice(_OF_LIMITS)
    declared = LimitsDeclared(
        subject=subject,
        name=rng.choice(names),
        each=rng.choice(within),
        most_running_jobs=rng.choice([0, 0, 1, 3]),
        most_nodes=rng.choice([0, 0, 2, 8]),
        most_cores=rng.choice([0, 0, 48, 200]),
        most_resources=rng.choice([{}, {}, {"gpu": 2}]),
        most_node_hours=rng.choice([0.0, 0.0, 0.5, 4.0]),
    )
    subjects = f"{subject}/{declared.name}/{declared.each}"
    publish(world, subjects, _sequence(world), limits_declared=declared)


def calm(world: World) -> None:
    """Nobody lacks a licence, and all are alive."""
    now_us = world.clock.now_us
    known = {
        (event.payload.scope, event.payload.place, event.payload.name): None
        for event in world.journal.events.values()
        if isinstance(event.payload, LicencesDeclared)
    }
    for scope, place, name in known:
        removed = LicencesDeclared(scope=scope, place=place, name=name, declared_at_us=now_us)
        if scope != LICENCE_SCOPE_REGION:
            publish(world, f"{scope}/{place}/{name}", f"{now_us}-calm", licences_declared=removed)
    license_all(world, _PLENTY)


def stay_alive(world: World) -> None:
    """No resource manager is silent for a day from now on."""
    now_us = world.clock.now_us
    for name in sorted(world.clusters):
        alive = ManagerAlive(
            manager="calm", clusters=[name], silent_after_s=_DAY_S, alive_at_us=now_us
        )
        publish(world, f"calm/{name}", f"{now_us}-calm", manager_alive=alive)


def _sequence(world: World) -> str:
    return f"{world.clock.now_us}-{world.events}"


CAPPING: Final = frozenset({cap, limit, limit_all, squeeze})
WORDS: Final[Mapping[Callable[[World], None], float]] = {
    license_some: 6,
    live_on: 6,
    reorder: 5,
    choose_order: 1,
    limit_all: 1,
}
