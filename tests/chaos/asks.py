"""Jobs that ask for all that a job can ask for: arrays, parts, licences, a quality of service, a
place in the order of their resource manager, and an answer at once."""

from collections.abc import Mapping
from random import Random
from typing import TYPE_CHECKING, Any, Final

from coplace.v1.jobs_pb2 import DEPENDENCY_CONDITION_AFTER_CORR, JobSubmitted, Part

from tests.chaos.clock import HOUR_US, SECOND_US, some_time_us
from tests.chaos.places import PARTITIONS

if TYPE_CHECKING:
    from tests.chaos.world import World

SITES: Final[Mapping[str, str]] = {
    "alpha": "site",
    "beta": "site",
    "gamma": "south",
    "delta": "south",
}
LICENCES: Final = ("ansys", "matlab")
QOS: Final = ("high", "normal")
_TASKS: Final = ("0-3", "1,3,5-9:2", "0-11", "7")
# What is said of each part, and not of a gang as a whole.
_OF_PARTS: Final = (
    "cores_per_unit",
    "memory_gib",
    "memory_gib_per_unit",
    "resources_per_unit",
    "units_per_node",
    "nodes_wanted",
    "shareable",
)
# What keeps most jobs out that ask for all of it: most ask for none of it.
_KEEPING_OUT: Final = (
    *("architectures", "partitions", "features", "nodes_wanted", "nodes_excluded", "clusters"),
    *("begin_at_us", "deadline_at_us", "depends_on", "reservation", "memory_gib"),
)


def ask(world: "World", submitted: JobSubmitted) -> None:
    """Draw some of all that."""
    rng = world.rng
    if rng.random() < 0.6:
        for name in _KEEPING_OUT:
            submitted.ClearField(name)
    _shape(rng, submitted)
    _count(rng, submitted)
    if submitted.array and rng.random() < 0.4:
        _follow_tasks(world, submitted)


def _follow_tasks(world: "World", submitted: JobSubmitted) -> None:
    """Have each task wait for one of another array."""
    known = list(world.journal.submissions.values())[-40:]
    others = [job.job_id for job in known if job.array and job.account == submitted.account]
    if others:
        other = world.rng.choice(others)
        submitted.depends_on.add(job_id=other, condition=DEPENDENCY_CONDITION_AFTER_CORR)


def _shape(rng: Random, submitted: JobSubmitted) -> None:
    """Whether it has parts, tasks, or is interactive."""
    if rng.random() < 0.2:
        _divide(rng, submitted)
    if rng.random() < 0.2:
        submitted.array = rng.choice(_TASKS)
        submitted.array_at_most = rng.choice([0, 1, 2, 3])
        submitted.nodes = submitted.nodes if submitted.parts else rng.choice([1, 1, 2])
    elif rng.random() < 0.15:
        submitted.is_interactive = True
        submitted.starts_within_s = rng.choice([0.0, _some_time_s(rng)])


def _count(rng: Random, submitted: JobSubmitted) -> None:
    """What is counted of it, and by whom."""
    if rng.random() < 0.3:
        for name in rng.sample(LICENCES, rng.choice([1, 1, 2])):
            submitted.licences[name] = rng.choice([1, 1, 2])
    submitted.qos = rng.choice(["", *QOS])
    submitted.home_cluster = rng.choice(["", submitted.reference_cluster])
    submitted.manager_priority = rng.choice([0, 1, 2, 2, 3, rng.randint(1, 2**32 - 1)])


def _divide(rng: Random, submitted: JobSubmitted) -> None:
    """Make a gang of it."""
    for name in _OF_PARTS:
        submitted.ClearField(name)
    submitted.parts.extend(_part(rng) for _ in range(rng.choice([2, 2, 3])))
    submitted.nodes = sum(nodes_of(part) for part in submitted.parts)


def _part(rng: Random) -> Part:
    gpus = rng.choice([0, 0, 1])
    wishes: dict[str, Any] = {
        "memory_gib_per_unit": rng.choice([0.0, 0.0, 40.0, 100.0]),
        "resources_per_unit": {"gpu": gpus} if gpus else {},
        "cores_per_unit": rng.choice([0, 0, 1, 2]),
        "features": rng.choice(["", "", "", "x", "y"]),
        "partitions": rng.choice([[], [], [], [rng.choice(PARTITIONS)]]),
    }
    return Part(units=rng.choice([1, 1, 2, 3]), units_per_node=rng.choice([0, 0, 2]), **wishes)


def nodes_of(part: Part) -> int:
    """How many nodes a part has."""
    return -(-part.units // max(1, part.units_per_node))


def _some_time_s(rng: Random) -> float:
    return some_time_us(rng, SECOND_US, HOUR_US) / SECOND_US
