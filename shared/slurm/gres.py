"""Slurm's generic resources, as nodes have them and as jobs ask for them: `gpu:a100:2(S:0-1)`,
`gres/gpu:1`. They are in its lists of trackable resources only where a site names them in
AccountingStorageTRES.

https://slurm.schedmd.com/gres.html
"""

import re
from collections import Counter
from collections.abc import Mapping
from typing import Final

_ENTRY: Final = re.compile(
    r"(?:gres[:/])?([A-Za-z_][\w.+-]{0,63})(?::(?!no_consume)([A-Za-z_][\w.+-]{0,63}))?"
    r"(?::no_consume)?(?:[:=](\d{1,18})([KMGTP]?))?(?:\([^()]*\))?"
)
_EXPONENTS: Final[Mapping[str, int]] = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5}
_BETWEEN: Final = re.compile(r",(?![^()]*\))")
# What else a list of a job has beside them.
_NO_GRES: Final = frozenset(
    {"cpu", "mem", "license", "bb", "billing", "node", "energy", "fs", "ic"}
)


def gres_counts(text: str) -> dict[str, int]:
    """Return how many of each a list names, and of each type beside that: `gpu` and `gpu:a100`.
    What is no such entry is left out."""
    found = Counter[str]()
    for entry in _BETWEEN.split(text) if text else ():
        said = _ENTRY.fullmatch(entry)
        if said is None or said[1] in _NO_GRES:
            continue
        count = int(said[3] or 1) << 10 * _EXPONENTS[said[4] or ""]
        found[said[1]] += count
        if said[2]:
            found[f"{said[1]}:{said[2]}"] += count
    return dict(found)
