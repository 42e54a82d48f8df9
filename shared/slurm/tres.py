"""Slurm's lists of trackable resources: `cpu=8,mem=16G,node=2,billing=8,gres/gpu:a100=2`.

https://slurm.schedmd.com/tres.html
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from coplace_client.errors import RejectedError

# Slurm shortens counts by powers of 1,024, and memory without a suffix is in MiB.
_ENTRY: Final = re.compile(r"([^=,\s]{1,128})=([0-9]{1,18}(?:\.[0-9]{1,9})?)([KMGTPE]?)")
_EXPONENTS: Final[Mapping[str, int]] = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}
_MIB: Final = 1_024**2
_GRES: Final = "gres/"
_LICENSE: Final = "license/"


@dataclass(frozen=True, slots=True)
class Tres:
    """What one list says. `memory_gib` and counts are 0 where it says nothing.

    `gres` are those of nodes, by name and type as Slurm has them: `gpu`, and `gpu:a100` beside it
    where a type was named. `licenses` are the cluster's. The others are no amounts that a job
    holds: `billing` is a price, `energy`, `fs`, `ic`, `pages` and `vmem` are measured, and burst
    buffers (`bb`) are bytes of no node.
    """

    cpus: int
    nodes: int
    memory_gib: Fraction
    gres: Mapping[str, int]
    licenses: Mapping[str, int]

    @classmethod
    def parse(cls, field: str, text: str) -> "Tres":
        """Raises RejectedError, which names `field`, for what Slurm does not write."""
        counts: dict[str, Fraction] = {}
        for kind, count in _entries(field, text):
            if kind in counts:
                raise RejectedError(field, f"must name {kind[:40]!r} once")
            counts[kind] = count
        return cls(
            cpus=_whole(field, "cpu", counts),
            nodes=_whole(field, "node", counts),
            memory_gib=counts.get("mem", Fraction(0)) / 1_024**3,
            gres=_named(field, _GRES, counts),
            licenses={_LICENSE + n: c for n, c in _named(field, _LICENSE, counts).items()},
        )


def _entries(field: str, text: str) -> Iterator[tuple[str, Fraction]]:
    for entry in text.split(",") if text else ():
        found = _ENTRY.fullmatch(entry)
        if found is None:
            problem = f"must be a list like cpu=8,mem=16G,gres/gpu=2, got {entry[:40]!r}"
            raise RejectedError(field, problem)
        kind, count, suffix = found.groups()
        unit = _MIB if kind == "mem" and not suffix else 1 << 10 * _EXPONENTS[suffix]
        yield kind, Fraction(count) * unit


def _whole(field: str, kind: str, counts: Mapping[str, Fraction]) -> int:
    count = counts.get(kind, Fraction(0))
    if count.denominator != 1:
        raise RejectedError(field, f"must hold a whole number of {kind[:40]!r}")
    return count.numerator


def _named(field: str, prefix: str, counts: Mapping[str, Fraction]) -> dict[str, int]:
    """Those of one sort, by the text behind the prefix."""
    kinds = (kind for kind in counts if kind.startswith(prefix))
    return {kind.removeprefix(prefix): _whole(field, kind, counts) for kind in kinds}
