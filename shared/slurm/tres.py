"""Slurm's lists of trackable resources: `cpu=8,mem=16G,node=2,billing=8,gres/gpu:a100=2`.

https://slurm.schedmd.com/tres.html
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from coplace_client.bounds import LENGTHS
from shared.domain.printable import MOST_PRINTABLE

# Slurm shortens counts by powers of 1,024, and memory without a suffix is in MiB.
_ENTRY: Final = re.compile(r"([^=,\s]{1,128})=([0-9]{1,18}(?:\.[0-9]{1,9})?)([KMGTPE]?)")
_EXPONENTS: Final[Mapping[str, int]] = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}
_MIB: Final = 1_024**2
_GRES: Final = "gres/"
_LICENSE: Final = "license/"
# Sites count disks and bandwidth as gres too, in bytes: nobody has so many of a thing.
_MOST_COUNT: Final = 2**32 - 1
# Those that a site counts in bytes are of no node class: no node has so many things.
_MOST_OF_A_KIND: Final = 10_000
# More than any Slurm counts.
_MOST_ENTRIES: Final = 4_096
_MOST_KINDS: Final = LENGTHS["resources"].most
_ACCELERATOR: Final = "gpu"


def is_of_nodes(count: int) -> bool:
    """Return whether a node can have so many of a thing."""
    return 1 <= count <= _MOST_OF_A_KIND


@dataclass(frozen=True, slots=True)
class Tres:
    """What one list says. `memory_gib` and counts are 0 where it says nothing.

    `gres` are those of nodes, by name and type as Slurm has them: `gpu`, and `gpu:a100` beside it
    where a type was named. `licenses` are the cluster's. The others are no amounts that a job
    holds: `billing` is a price, `energy`, `fs`, `ic`, `pages` and `vmem` are measured, and burst
    buffers (`bb`) are bytes of no node. `left_out` are entries that say no amount, or one that
    nothing has.
    """

    cpus: int
    nodes: int
    memory_gib: Fraction
    gres: Mapping[str, int]
    licenses: Mapping[str, int]
    left_out: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> "Tres":
        """Read what is an amount in a list, and leave out the rest."""
        left_out: list[str] = []
        counts: dict[str, Fraction] = {}
        for entry, kind, count in _entries(text):
            if not kind or kind in counts:
                left_out.append(entry)
            else:
                counts[kind] = count
        whole = {
            kind: count.numerator
            for kind, count in counts.items()
            if kind != "mem" and count.denominator == 1 and count <= _MOST_COUNT
        }
        left_out += [kind for kind in counts if _is_read(kind) and kind not in whole]
        gres = _named(_GRES, whole, left_out)
        licenses = _named(_LICENSE, whole, left_out)
        return cls(
            cpus=whole.get("cpu", 0),
            nodes=whole.get("node", 0),
            memory_gib=counts.get("mem", Fraction(0)) / 1_024**3,
            gres=gres,
            licenses={_LICENSE + name: count for name, count in licenses.items()},
            left_out=tuple(left_out),
        )


def amounts(text: str) -> dict[str, float]:
    """Return what a list says of each resource; memory in bytes."""
    return {kind: float(count) for _, kind, count in _entries(text) if kind}


def most_important(counts: Mapping[str, int]) -> dict[str, int]:
    """Return as many kinds as an event may name: accelerators before all others."""
    if len(counts) <= _MOST_KINDS:
        return dict(counts)
    first = sorted(counts, key=lambda name: name.partition(":")[0] != _ACCELERATOR)
    return {name: counts[name] for name in first[:_MOST_KINDS]}


def _entries(text: str) -> Iterator[tuple[str, str, Fraction]]:
    """Yield each entry with its kind and its amount; without a kind where it says none."""
    for entry in text.split(",", _MOST_ENTRIES)[:_MOST_ENTRIES] if text else ():
        found = _ENTRY.fullmatch(entry)
        if found is None:
            yield entry[:MOST_PRINTABLE], "", Fraction(0)
            continue
        kind, count, suffix = found.groups()
        unit = _MIB if kind == "mem" and not suffix else 1 << 10 * _EXPONENTS[suffix]
        yield entry, kind, Fraction(count) * unit


def _is_read(kind: str) -> bool:
    return kind in {"cpu", "node"} or kind.startswith((_GRES, _LICENSE))


def _named(prefix: str, whole: Mapping[str, int], left_out: list[str]) -> dict[str, int]:
    """Those of one sort, by the text behind the prefix."""
    kinds = [kind for kind in whole if kind.startswith(prefix) and kind != prefix]
    left_out += [kind for kind in kinds if not kind.isprintable()]
    return {kind.removeprefix(prefix): whole[kind] for kind in kinds if kind.isprintable()}
