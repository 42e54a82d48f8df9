"""Lines that users type, drawn by a seed: the same for every Slurm."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from random import Random
from typing import Final

from tests.slurm.site import FEATURES, NODES_OF, RESERVATION, RESERVED

_PARTITIONS: Final = (("small",), ("small",), ("big",), ("both",), ("small", "big"))
_NAMES: Final = (
    *("two\nlines", "tab\tx", "gr\udcf6\udcdfe", "na\udcefve\n" + "y" * 257, "gr öße"),
    *("\U0001f600", 'it\'s \\ "q" |x', "ü" * 200, "(null)", "%j;$(id)", "JobId=7 StartTime=0"),
)
# Of a minute that a job asks for it lasts so long at most: by that Slurm has started it.
_LASTS_A_MINUTE_S: Final = 50
# Each job of this name waits for those before it.
_SINGLE: Final = "single"
_AFTER: Final = ("after", "afterany", "afterok", "afternotok")


@dataclass(frozen=True, slots=True)
class Line:
    """A job that is submitted at a second of the play, what it asks for, and what its user does to
    it later. `awaits` are the places of earlier lines, by the conditions on them."""

    at_s: float
    kind: str
    partitions: tuple[str, ...]
    cores: int = 1
    nodes: int = 0
    lasts_s: int = 1
    limit_min: int = 2
    exit_code: int = 0
    begin_s: int = 0
    tasks: int = 0
    at_once: int = 0
    awaits: tuple[tuple[str, int], ...] = ()
    licences: int = 0
    features: str = ""
    wanted: str = ""
    excluded: str = ""
    memory_mb: int = 0
    is_exclusive: bool = False
    is_reserved: bool = False
    is_single: bool = False
    name: str = ""
    # The partition of the other part of a heterogeneous job, of one core.
    beside: str = ""
    command: str = "sbatch"
    more: tuple[str, ...] = ()
    cancel_s: float = 0.0
    release_s: float = 0.0
    suspends: bool = False
    requeues: bool = False

    @property
    def may_use(self) -> frozenset[str]:
        """Return the nodes that its user accepts."""
        found = frozenset().union(*(NODES_OF[name] for name in self.partitions))
        if self.features:
            of = (FEATURES[name] for name in self.features.split("|"))
            found &= frozenset().union(*of)
        if self.wanted:
            found &= {self.wanted}
        return (found & RESERVED if self.is_reserved else found - RESERVED) - {self.excluded}

    @property
    def beside_may_use(self) -> frozenset[str]:
        """Return the nodes that its user accepts for the other part of a heterogeneous job."""
        return NODES_OF[self.beside] - RESERVED

    @property
    def cores_a_node(self) -> int:
        """Return how many cores it needs of one node, if it is on as few nodes as it may."""
        return -(-self.cores // max(self.nodes, 1))

    def options(self, numbers: Mapping[int, int]) -> list[str]:
        """Return its options; `numbers` are Slurm's of earlier lines, by their place."""
        found = [f"--partition={','.join(self.partitions)}", f"--ntasks={self.cores}"]
        found += [f"--time={self.limit_min}", *self.more]
        if self.awaits:
            awaited = (f"{how}:{numbers[place]}" for how, place in self.awaits)
            found.append(f"--dependency={','.join(awaited)}")
        if self.tasks:
            found.append(f"--array=1-{self.tasks}%{self.at_once}")
        said = {
            "nodes": self.nodes,
            "begin": self.begin_s and f"now+{self.begin_s}",
            "licenses": self.licences and f"matlab:{self.licences}",
            "constraint": self.features,
            "nodelist": self.wanted,
            "exclude": self.excluded,
            "mem": self.memory_mb,
            "reservation": self.is_reserved and RESERVATION,
            "job-name": self.name,
        }
        found += [f"--{name}={value}" for name, value in said.items() if value]
        found += ["--exclusive"] if self.is_exclusive else []
        found += ["--dependency=singleton"] if self.is_single else []
        found += ["--hold"] if self.release_s else []
        return found


def drawn(rng: Random, count: int, over_s: float, longest_s: int, *, is_full: bool) -> list[Line]:
    """Return so many lines, evenly over so many seconds, each running up to `longest_s`. The full
    form has a QOS, and early jobs that are requeued: Slurm lets these wait for two minutes."""
    found: list[Line] = []
    for place in range(count):
        line = Line(
            at_s=over_s * place / count,
            kind="plain",
            partitions=rng.choice(_PARTITIONS),
            cores=rng.choice((1, 1, 1, 2, 3)),
            lasts_s=rng.randint(1, longest_s),
            limit_min=rng.choice((1, 2)) * ceil(longest_s / _LASTS_A_MINUTE_S),
        )
        kinds = [*_KINDS, "qos"] if is_full else _KINDS
        kinds = [*kinds, "requeue"] if is_full and place < count // 3 else kinds
        found.append(_with_kind(rng, rng.choice(kinds), line, found))
    return found


def _with_kind(rng: Random, kind: str, line: Line, before: Sequence[Line]) -> Line:
    """Return a line that asks for something, does so or is done to so."""
    if kind == "dependency":
        line = _behind(rng, line, before)
    elif kind in _ASKS:
        line = _ASKS[kind](rng, line)
    return replace(line, kind=kind)


def _named(rng: Random, line: Line) -> Line:
    partition = rng.choice(_ALONE)
    line = replace(line, partitions=(partition,))
    node = rng.choice(sorted(NODES_OF[partition] - RESERVED))
    return replace(line, wanted=node) if rng.random() < 0.5 else replace(line, excluded=node)


def _behind(rng: Random, line: Line, before: Sequence[Line]) -> Line:
    """Return a line that waits for one or two that came before; of what it waits for, all comes
    true."""
    awaits = []
    for place in rng.sample(range(len(before)), min(len(before), rng.randint(1, 2))):
        awaited = before[place]
        # What is submitted by hand has no number before it runs, and a cancelled one is not ok.
        if awaited.command != "sbatch" or awaited.requeues or awaited.kind == "het":
            continue
        how = rng.choice(_AFTER)
        if awaited.cancel_s or how in ("afterok", "afternotok"):
            how = "afternotok" if awaited.exit_code else "afterok"
            how = "afterany" if awaited.cancel_s else how
        awaits.append((how, place))
    return replace(line, awaits=tuple(awaits))


def _wide(rng: Random, line: Line) -> Line:
    partition = rng.choice(_ALONE)
    nodes = 2 if partition == "both" else rng.randint(2, 3)
    cores = nodes * rng.randint(1, 3)
    return replace(line, partitions=(partition,), nodes=nodes, cores=cores)


def _featured(rng: Random, line: Line) -> Line:
    features, *partitions = rng.choice(_FEATURED)
    return replace(line, features=features, partitions=tuple(partitions))


_ALONE: Final = ("small", "big", "both")
_FEATURED: Final = (("skylake", "both"), ("rome", "both"), ("rome|ib", "small", "big"))
_ASKS: Final[Mapping[str, Callable[[Random, Line], Line]]] = {
    "array": lambda rng, line: replace(line, tasks=rng.randint(2, 4), at_once=rng.randint(1, 3)),
    "begin": lambda rng, line: replace(line, begin_s=rng.randint(1, 20)),
    "licences": lambda rng, line: replace(line, licences=rng.randint(1, 2)),
    "features": _featured,
    "reservation": lambda _, line: replace(line, is_reserved=True, partitions=("small",)),
    "exclusive": lambda rng, line: replace(
        line, is_exclusive=True, partitions=(rng.choice(_ALONE),)
    ),
    "memory": lambda rng, line: replace(line, memory_mb=rng.choice((300, 900, 2_500))),
    "nodes": _wide,
    "named": _named,
    "name": lambda rng, line: replace(line, name=rng.choice(_NAMES)),
    "single": lambda _, line: replace(line, is_single=True, name=_SINGLE),
    "fails": lambda _, line: replace(line, exit_code=3),
    "cancel": lambda rng, line: replace(line, cancel_s=rng.uniform(0.5, 8.0)),
    "hold": lambda rng, line: replace(line, release_s=rng.uniform(1.0, 8.0)),
    "suspend": lambda _, line: replace(line, suspends=True, lasts_s=8),
    "requeue": lambda _, line: replace(line, requeues=True, lasts_s=8),
    "het": lambda rng, line: replace(
        line, partitions=("small",), beside=rng.choice(("small", "big"))
    ),
    "interactive": lambda rng, line: replace(line, command=rng.choice(("srun", "salloc")), cores=1),
    "qos": lambda _, line: replace(line, more=("--qos=short",)),
}
_KINDS: Final = (
    *("plain", "plain", "plain", "array", "array", "dependency", "dependency", "begin", "licences"),
    *("features", "reservation", "exclusive", "memory", "nodes", "named", "name", "single"),
    *("fails", "cancel", "hold", "suspend", "het", "interactive"),
)


def ordinary() -> list[Line]:
    """Return thirty lines as users type them day by day."""
    small, big, both = (("small",), ("big",), ("both",))
    asked: list[Line] = [
        *(Line(0, "plain", small, lasts_s=10) for _ in range(6)),
        *(Line(0, "plain", big, cores=2, lasts_s=10) for _ in range(3)),
        Line(0, "plain", ("small", "big"), lasts_s=10),
        Line(0, "nodes", big, cores=2, nodes=2, lasts_s=10),
        Line(0, "nodes", both, cores=4, nodes=2, lasts_s=10),
        Line(0, "begin", small, begin_s=10, lasts_s=5),
        Line(0, "begin", big, begin_s=20, lasts_s=5),
        Line(0, "dependency", small, awaits=(("afterok", 0),), lasts_s=5),
        Line(0, "dependency", big, awaits=(("afterany", 1), ("after", 2)), lasts_s=5),
        Line(0, "array", small, tasks=3, at_once=3, lasts_s=5),
        Line(0, "array", big, tasks=4, at_once=2, lasts_s=5),
        Line(0, "features", both, features="skylake", lasts_s=5),
        Line(0, "features", ("small", "big"), features="rome|ib", lasts_s=5),
        Line(0, "reservation", small, is_reserved=True, lasts_s=5),
        Line(0, "licences", small, licences=1, lasts_s=5),
        Line(0, "memory", small, memory_mb=1_000, lasts_s=5),
        Line(0, "named", big, wanted="b2", lasts_s=5),
        Line(0, "named", small, excluded="a1", lasts_s=5),
        Line(0, "exclusive", big, is_exclusive=True, lasts_s=5),
        Line(0, "name", small, name="gr\udcf6\udcdfe", lasts_s=5),
        Line(0, "single", small, is_single=True, name=_SINGLE, lasts_s=5),
        Line(0, "single", small, is_single=True, name=_SINGLE, lasts_s=5),
        Line(0, "fails", big, exit_code=3, lasts_s=5),
    ]
    return asked
