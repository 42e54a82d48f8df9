"""Jobs that say when they may start and must have ended."""

from random import Random
from typing import TYPE_CHECKING, Final

from coplace.v1.jobs_pb2 import (
    DEPENDENCY_CONDITION_AFTER,
    DEPENDENCY_CONDITION_AFTER_ANY,
    DEPENDENCY_CONDITION_AFTER_NOT_OK,
    DEPENDENCY_CONDITION_AFTER_OK,
    DEPENDENCY_CONDITION_SINGLETON,
    Dependency,
    JobSubmitted,
)

from tests.chaos.clock import HOUR_US, SECOND_US, some_time_us

if TYPE_CHECKING:
    from tests.chaos.world import World

# The fields that say so, and others that came with them or later, as "Message.field": only where
# jobs are timed does somebody hostile distort them. So the seeds of the other episodes stay what
# they are. A finish and a tariff had their QOS before a submission had one.
START_TERMS: Final = frozenset(
    {
        *(f"JobSubmitted.{name}" for name in ("begin_at_us", "deadline_at_us", "depends_on_any")),
        *(f"JobSubmitted.{name}" for name in ("job_name", "sequence", "held_because")),
        *(f"JobSubmitted.{name}" for name in ("reservation", "array", "array_at_most", "parts")),
        *(f"JobSubmitted.{name}" for name in ("licences", "home_cluster", "qos")),
        *(f"JobSubmitted.{name}" for name in ("manager_priority", "is_interactive")),
        *("JobSubmitted.starts_within_s", "LimitsDeclared.each", "LimitsDeclared.most_cores"),
        *("LimitsDeclared.most_resources", "LimitsDeclared.most_node_hours", "LimitsDeclared.site"),
        *("ClusterDeclared.shares_unpredicted", "RunInterval.is_clock_unknown"),
        *("JobSubmitted.held_by", "JobHeld.holder", "JobReleased.holders"),
        "JobSubmitted.changed_at_us",
        *("JobSubmitted.millicores_per_unit", "Part.millicores_per_unit", "JobFinished.millicores"),
        "NodeClass.millicores_per_node",
        *(f"JobFinished.{name}" for name in ("node_names", "ended_as", "exit_code", "signal")),
    }
)
# Names of reservations, of which jobs ask for some.
RESERVATIONS: Final = ("course", "fans", "vacation")
_NAMES: Final = ("train", "train", "test")
_CONDITIONS: Final = (
    DEPENDENCY_CONDITION_AFTER,
    DEPENDENCY_CONDITION_AFTER_OK,
    DEPENDENCY_CONDITION_AFTER_ANY,
    DEPENDENCY_CONDITION_AFTER_NOT_OK,
)


def put_start_terms(world: "World", submitted: JobSubmitted) -> None:
    """Draw some of a begin, a deadline, dependencies with delays, a name, a place in the order of
    its resource manager, a reservation, and a reason that it is held for."""
    rng, at_us = world.rng, submitted.submitted_at_us
    if rng.random() < 0.2:
        submitted.begin_at_us = at_us + some_time_us(rng, SECOND_US, HOUR_US)
    if rng.random() < 0.2:
        from_us = max(at_us, submitted.begin_at_us) + round(submitted.walltime_s * 1e6)
        submitted.deadline_at_us = from_us + rng.choice([-1, 1, 1, 1]) * some_time_us(
            rng, SECOND_US, HOUR_US
        )
    if rng.random() < 0.5:
        submitted.job_name = rng.choice(_NAMES)
    if rng.random() < 0.3:
        submitted.sequence = str(rng.randrange(1_000))
    for dependency in submitted.depends_on:
        dependency.condition = rng.choice(_CONDITIONS)
        dependency.delay_s = _delay_s(rng)
    if submitted.job_name and rng.random() < 0.4:
        submitted.depends_on.append(Dependency(condition=DEPENDENCY_CONDITION_SINGLETON))
    submitted.depends_on_any = rng.random() < 0.3
    _ask_and_hold(world, submitted)


def _ask_and_hold(world: "World", submitted: JobSubmitted) -> None:
    rng = world.rng
    if rng.random() < 0.15:
        submitted.reservation = rng.choice(RESERVATIONS)
    if rng.random() < 0.03:
        submitted.held_because = "something that nobody understands"
        world.held.add(submitted.job_id)


def _delay_s(rng: Random) -> float:
    return rng.choice([0.0, 0.0, some_time_us(rng, SECOND_US, HOUR_US) / SECOND_US])
