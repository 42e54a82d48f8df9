"""Random systems as scripts: steps that mean something whatever came before them, so that a script
without some of its steps is one too, and the smallest that breaks a rule can be looked for."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from random import Random
from typing import Final, Protocol

from shared.domain.eamc_policy import Policy

POLICIES: Final = tuple(Policy)
# Of each cluster that has any.
PARTITIONS: Final = 3


class Step(Protocol):
    """Something that happens; numbers that pick are taken modulo what there is."""


@dataclass(frozen=True)
class Rule:
    """The policy, whether idle power counts, how much longer a job may take at a lower P-state
    where a cap refuses its own, what is done to running jobs where a cap is exceeded, and whether
    they free watts for jobs that wait."""

    policy: int = 0
    counts_idle: bool = True
    cap_slowdown: float = 1.0
    measures: tuple[str, ...] = ()
    sharing: bool = False


@dataclass(frozen=True)
class Declare:
    """A cluster, of which some nodes have GPUs and more memory; where `places` is not 0, its nodes
    have features and are in partitions, drawn by it."""

    cluster: int
    nodes: int = 2
    cores: int = 4
    gpu_nodes: int = 0
    places: int = 0


@dataclass(frozen=True)
class Submit:
    """A job: of whole nodes where it says no cores, of half of each node if it then shares. Cores
    that are no whole ones are so many thousandths, and rounded up."""

    units: int = 1
    walltime_s: int = 80
    app: int = 0
    reference: int = 0
    cores: int = 0
    shares: bool = False
    most: int = 0
    gpus: int = 0
    memory_gib: int = 0
    priority: int = 0
    user: int = 0
    where: "Where | None" = None
    reservation: int = -1
    licences: tuple[tuple[int, int], ...] = ()  # by number, how many
    parts: "tuple[PartAsked, ...]" = ()
    millicores: int = 0

    @property
    def each(self) -> int | Fraction:
        """The cores of a unit, exactly."""
        return Fraction(self.millicores, 1000) or self.cores


@dataclass(frozen=True)
class Change:
    """The user of a job that does not run asks for something else instead; its priority stays."""

    pick: int
    to: Submit


@dataclass(frozen=True)
class PartAsked:
    """A part of a gang: so many units, so many of them a node, and what each of them needs."""

    units: int = 1
    per_node: int = 1
    cores: int = 0
    gpus: int = 0
    memory_gib: int = 0
    where: "Where | None" = None
    millicores: int = 0

    @property
    def each(self) -> int | Fraction:
        """The cores of a unit, exactly."""
        return Fraction(self.millicores, 1000) or self.cores

    @property
    def nodes(self) -> int:
        """How many it takes."""
        return -(-self.units // self.per_node)


@dataclass(frozen=True)
class Where:
    """Where a job may run: partitions and a feature by number, nodes by index."""

    partitions: tuple[int, ...] = ()
    feature: int = 0
    excluded: tuple[int, ...] = ()
    wanted: tuple[int, ...] = ()


@dataclass(frozen=True)
class Wait:
    """Rounds, each at the next instant at which something is due."""

    rounds: int = 1


@dataclass(frozen=True)
class Pass:
    """Time, and a round at its end: something may have been due before."""

    seconds: int


@dataclass(frozen=True)
class Finish:
    """A job that runs ends now."""

    pick: int


@dataclass(frozen=True)
class Overrun:
    """A job that runs will not end at its limit."""

    pick: int


@dataclass(frozen=True)
class Cap:
    """What a cluster, a site or the region may draw beyond idle, in units of 64 W, from so many
    seconds on; None for no cap."""

    scope: int
    pick: int
    levels: tuple[tuple[int, int | None], ...]


@dataclass(frozen=True)
class Stop:
    """An operator suspends a job that runs, or lets it run on."""

    pick: int
    is_over: bool = False


@dataclass(frozen=True)
class Manage:
    """From now on the resource manager of a cluster does what it is asked to do to jobs that run so
    much later and reports it later still; of P-states, suspending, resuming and ends it refuses
    those whose bit is set."""

    cluster: int
    acts_after_s: int = 0
    tells_after_s: int = 1
    refuses: int = 0


@dataclass(frozen=True)
class LoseOrReturn:
    """A cluster is out of reach, or there again."""

    pick: int


@dataclass(frozen=True)
class Ask:
    """Somebody cancels, holds or releases a job."""

    what: int
    pick: int


@dataclass(frozen=True)
class Limit:
    """What a user may run at once; 0 for any number."""

    jobs: int
    nodes: int


@dataclass(frozen=True)
class Plan:
    """A plan: a place for each of these jobs, on a cluster at a P-state, and from when on."""

    picks: tuple[int, ...]
    cluster: int
    pstate: int
    wait_s: int
    valid_s: int


@dataclass(frozen=True)
class Reserve:
    """Nodes of a cluster are kept from so many seconds on, for so long: for the jobs of a user that
    name this number, or for nobody where the user is -1. Without nodes it is removed."""

    cluster: int
    number: int
    nodes: tuple[int, ...] = ()
    wait_s: int = 0
    lasts_s: int = 64
    user: int = -1


@dataclass(frozen=True)
class License:
    """So many licences of a number on a cluster, of a site or of the region; None removes them."""

    scope: int
    pick: int
    number: int
    count: int | None


@dataclass(frozen=True)
class Kill:
    """Placement is killed, and restored from what it has written."""


Script = tuple[Step, ...]


def _submit(rng: Random) -> Step:
    form = rng.choice(["whole", "whole", "half", "part", "part"])
    is_part = form == "part"
    return Submit(
        units=rng.choice([1, 1, 2, 2, 3, 4, 5]),
        walltime_s=rng.choice([16, 40, 80, 80, 200, 400]),
        app=rng.randrange(4),
        reference=rng.randrange(3),
        cores=rng.randint(1, 4) if is_part else 0,
        shares=form == "half" or (is_part and rng.random() < 0.8),
        most=rng.choice([0, 1, 1, 2]) if is_part else 0,
        gpus=rng.choice([0, 0, 1]) if is_part else 0,
        memory_gib=rng.choice([0, 0, 8, 24]) if is_part else 0,
        priority=rng.choice([0, 0, 0, 1, -1]),
        user=rng.randrange(2),
    )


def _whole(rng: Random) -> Step:
    """A job that is counted in nodes alone."""
    return Submit(
        units=rng.choice([1, 1, 1, 2, 3, 4, 5]),
        walltime_s=rng.choice([16, 40, 80, 80, 200, 400]),
        app=rng.randrange(4),
        reference=rng.randrange(3),
        priority=rng.choice([0, 0, 0, 1, -1]),
    )


def _cap(rng: Random) -> Step:
    levels = [0, 1, 2, 3, 4, 6, 8, 12, None]
    later = sorted(rng.sample(range(8, 240, 8), rng.choice([0, 1, 2])))
    return Cap(
        rng.randrange(3), rng.randrange(3), tuple((s, rng.choice(levels)) for s in [0, *later])
    )


def _manage(rng: Random) -> Step:
    refuses = rng.choice([0, 0, 0, 1, 2, 4, 8, 15])
    acts_after_s = rng.choice([0, 0, 4, 30, 100])
    return Manage(rng.randrange(3), acts_after_s, rng.choice([1, 1, 8, 80]), refuses)


def _plan(rng: Random) -> Step:
    picks = tuple(rng.randrange(64) for _ in range(rng.randint(1, 3)))
    wait_s = rng.choice([0, 0, 16, 100])
    return Plan(picks, rng.randrange(3), rng.randrange(3), wait_s, rng.choice([50, 400]))


_RARE: Final[Sequence[tuple[int, Callable[[Random], Step]]]] = (
    (30, lambda rng: Wait(rng.choice([1, 1, 2, 3]))),
    (4, lambda rng: Pass(rng.choice([1, 8, 30, 100]))),
    (5, lambda rng: Finish(rng.randrange(64))),
    (2, lambda rng: Overrun(rng.randrange(64))),
    (6, _cap),
    (1, lambda rng: LoseOrReturn(rng.randrange(3))),
    (3, lambda rng: Ask(rng.randrange(3), rng.randrange(64))),
    (1, lambda rng: Limit(rng.randrange(4), rng.randrange(6))),
    (2, _plan),
    (3, lambda _: Kill()),
    (3, lambda rng: Stop(rng.randrange(64), rng.random() < 0.5)),
    (2, _manage),
)
# The part of the systems in which jobs free watts, drawn by itself so that no other draw moves.
_SHARING: Final = 0.5
# And those in which jobs say where they may run, and the part of the jobs that do.
_WHERE: Final = 0.4
_ASKING: Final = 0.6
# And those in which nodes are reserved, how often, and the part of the jobs that ask for it.
_RESERVED: Final = 0.4
_RESERVING: Final = 0.15
_NAMING: Final = 0.3
RESERVATIONS: Final = 3
# And those in which jobs are gangs, and the part of the jobs that are.
_GANGS: Final = 0.3
# Drawn from here on, so that the seeds which find planted bugs have none.
_FIRST_GANG: Final = 62_538_000_000
_GANGING: Final = 0.6
# And those in which jobs need licences, how often some are declared, and the part of the jobs.
_LICENSED: Final = 0.4
_LICENSING: Final = 0.06
_NEEDING: Final = 0.7
LICENCES: Final = 2
# And those in which units have parts of cores, whose powers and shares are never rounded: only from
# this seed on, so that all recorded ones stay as they are.
FIRST_OF_MILLICORES: Final = 2000
_DIVIDING: Final = 0.6
_MILLICORES: Final = (125, 125, 250, 250, 375, 500, 750, 1250, 1500, 2500)
# And those in which users change jobs that wait, and the part of the jobs behind which one is.
FIRST_OF_CHANGES: Final = 4000
_CHANGED: Final = 0.5
_CHANGING: Final = 0.4
MEASURES: Final = (
    (),
    ("lower-frequency",),
    ("suspend",),
    ("lower-frequency", "suspend"),
    ("lower-frequency", "suspend"),
    ("suspend", "lower-frequency"),
    ("lower-frequency", "suspend", "end"),
    ("end",),
)


def script(seed: int) -> Script:
    """The system of a seed: one of a few kinds, so that most meet few things at a time."""
    rule, *steps = _steps(Random(seed))
    assert isinstance(rule, Rule)
    rule = replace(rule, sharing=Random(f"sharing {seed}").random() < _SHARING)
    where = Random(f"where {seed}")
    if where.random() < _WHERE:
        steps = [_placed(step, where) for step in steps]
    reserved = Random(f"reserved {seed}")
    if reserved.random() < _RESERVED:
        steps = [each for step in steps for each in _reserved(step, reserved)]
    gangs = Random(f"gangs {_FIRST_GANG + seed}")
    if gangs.random() < _GANGS:
        has_places = any(isinstance(step, Declare) and step.places for step in steps)
        steps = [_gang(step, gangs, has_places=has_places) for step in steps]
    licensed = Random(f"licences {seed}")
    if licensed.random() < _LICENSED:
        steps = [each for step in steps for each in _licensed(step, licensed)]
    divided = Random(f"millicores {seed}")
    if seed >= FIRST_OF_MILLICORES and divided.random() < _DIVIDING:
        steps = [_divided(step, divided) for step in steps]
    changed = Random(f"changes {seed}")
    if seed >= FIRST_OF_CHANGES and changed.random() < _CHANGED:
        steps = [each for step in steps for each in _changed(step, changed)]
    return rule, *steps


def _changed(step: Step, rng: Random) -> Iterator[Step]:
    """The step, and perhaps behind it a job that is to be as one which was submitted."""
    yield step
    if isinstance(step, Submit) and rng.random() < _CHANGING:
        limit_s = rng.choice([step.walltime_s, 16, 40, 200])
        yield Change(rng.randrange(64), replace(step, walltime_s=limit_s))


def _divided(step: Step, rng: Random) -> Step:
    """The step, of a job or of parts that ask for cores and may have parts of them."""
    if not isinstance(step, Submit):
        return step
    parts = []
    for part in step.parts:
        cores, millicores = _millicores(part.cores, rng)
        parts.append(replace(part, cores=cores, millicores=millicores))
    cores, millicores = _millicores(step.cores, rng)
    return replace(step, parts=tuple(parts), cores=cores, millicores=millicores)


def _millicores(cores: int, rng: Random) -> tuple[int, int]:
    """Cores, and their thousandths where these are no whole cores."""
    if not cores or rng.random() >= _DIVIDING:
        return cores, 0
    drawn = rng.choice(_MILLICORES)
    return -(-drawn // 1000), drawn


def _gang(step: Step, rng: Random, *, has_places: bool) -> Step:
    """The step, of a job that may be a gang."""
    if not isinstance(step, Submit) or rng.random() >= _GANGING:
        return step
    free, parts = set(range(6)), list[PartAsked]()
    for _ in range(rng.choice([1, 2, 2, 2, 3])):
        units, per_node = rng.choice([1, 1, 1, 2, 2, 3]), rng.choice([1, 1, 2])
        part = PartAsked(
            units=units,
            per_node=per_node,
            cores=rng.choice([0, 0, 1, 2]),
            gpus=rng.choice([0, 0, 1]),
            memory_gib=rng.choice([0, 0, 8, 24]),
        )
        if has_places and rng.random() < _ASKING:
            drawn = _where(rng, part.nodes)
            wanted = tuple(node for node in drawn.wanted if node in free)
            free.difference_update(wanted)
            part = replace(part, where=replace(drawn, wanted=wanted))
        parts.append(part)
    where = replace(step.where, wanted=()) if step.where else None
    total = sum(part.nodes for part in parts)
    whole = replace(step, units=total, cores=0, shares=False, most=0, gpus=0, memory_gib=0)
    return replace(whole, where=where, parts=tuple(parts))


def _licensed(step: Step, rng: Random) -> Iterator[Step]:
    """The step, of a job that may need licences, and perhaps some that are declared behind it."""
    if isinstance(step, Submit) and rng.random() < _NEEDING:
        numbers = rng.sample(range(LICENCES), rng.choice([1, 1, 1, 2]))
        needs = tuple((number, rng.choice([1, 1, 2, 2, 3, 4])) for number in sorted(numbers))
        step = replace(step, licences=needs)
    yield step
    if isinstance(step, Declare):
        for number in range(LICENCES):
            scopes = rng.choice([[2], [2], [1], [0], [0, 1], [0, 2]])
            for scope in scopes:
                yield License(scope, step.cluster, number, rng.choice([2, 3, 4, 4, 5, 6]))
    elif rng.random() < _LICENSING:
        count = rng.choice([None, 0, 1, 2, 3, 4, 5, 6])
        yield License(rng.randrange(3), rng.randrange(3), rng.randrange(LICENCES), count)


def _reserved(step: Step, rng: Random) -> Iterator[Step]:
    """The step, of a job that may name a reservation, and perhaps a reservation behind it."""
    if isinstance(step, Submit) and rng.random() < _NAMING:
        step = replace(step, reservation=rng.randrange(RESERVATIONS))
    yield step
    if not isinstance(step, Declare) and rng.random() < _RESERVING:
        yield Reserve(
            cluster=rng.randrange(3),
            number=rng.randrange(RESERVATIONS),
            nodes=tuple(sorted(rng.sample(range(6), rng.choice([0, 1, 2, 3, 6])))),
            wait_s=rng.choice([0, 0, 8, 40, 100, 200]),
            lasts_s=rng.choice([16, 64, 64, 200, 800]),
            user=rng.choice([-1, -1, 0, 1]),
        )


def _placed(step: Step, rng: Random) -> Step:
    """The step with places."""
    if isinstance(step, Declare):
        return replace(step, places=rng.randrange(1, 1000))
    if isinstance(step, Submit) and rng.random() < _ASKING:
        return replace(step, where=_where(rng, step.units))
    return step


def _where(rng: Random, units: int) -> Where:
    named = rng.sample(range(6), rng.choice([0, 0, 0, 1, 1, 2]))
    wanted = tuple(named[:units]) if rng.random() < 0.5 else ()
    return Where(
        partitions=tuple(rng.sample(range(PARTITIONS), rng.choice([0, 1, 1, 2, 3]))),
        feature=rng.choice([0, 0, 0, 1, 2, 3, 4]),
        excluded=tuple(node for node in named if node not in wanted),
        wanted=wanted,
    )


def _steps(rng: Random) -> Iterator[Step]:
    counts_idle, cap_slowdown = rng.random() < 0.8, rng.choice([1.0, 2.0, 4.0])
    yield Rule(rng.randrange(len(POLICIES)), counts_idle, cap_slowdown, rng.choice(MEASURES))
    has_gpus = rng.random() < 0.4
    for cluster in range(rng.choice([1, 1, 2, 2, 3])):
        gpu_nodes = rng.choice([0, 1, 2]) if has_gpus else 0
        yield Declare(cluster, rng.randint(2, 6), rng.choice([2, 4]), gpu_nodes)
    submit = rng.choice([_whole, _submit])
    weights = [weight for weight, _ in _RARE]
    for off in range(4, len(_RARE)):
        weights[off] *= rng.random() < 0.6
    for _ in range(rng.randint(1, 4)):
        yield submit(rng)
    for _ in range(rng.randint(10, 50)):
        if rng.random() < 0.35:
            yield from (submit(rng) for _ in range(rng.choice([1, 1, 2, 4])))
        else:
            [made] = rng.choices([made for _, made in _RARE], weights)
            yield made(rng)


def smaller(steps: Script) -> Iterator[Script]:
    """The script without some of its steps, many at once first."""
    size = len(steps) // 2
    while size:
        for begin in range(0, len(steps), size):
            yield (*steps[:begin], *steps[begin + size :])
        size //= 2


def smallest(steps: Script, breaks: Callable[[Script], bool]) -> Script:
    """A script of which no step can be left out without that it breaks no more."""
    while True:
        found = next((less for less in smaller(steps) if breaks(less)), None)
        if found is None:
            return steps
        steps = found
