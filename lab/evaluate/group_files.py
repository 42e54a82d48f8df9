"""Files of applications alone and of runs in groups, as CSV.

Alone: app, freq_ghz, time_s, power_w, instructions, llc_accesses, llc_misses, one row an
application and P-state. Groups: target, neighbours (`cg+cg+ep`), freq_ghz, time_s and energy_j of
the target's run.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from coplace_client.errors import UnusableError
from lab.evaluate.group_features import AppAlone, GroupRun
from lab.evaluate.pair_files import positive, rows_of

_ALONE: Final = (
    "app", "freq_ghz", "time_s", "power_w", "instructions", "llc_accesses", "llc_misses",
)  # fmt: skip
_GROUPS: Final = ("target", "neighbours", "freq_ghz", "time_s", "energy_j")


@dataclass(frozen=True, slots=True)
class GroupFiles:
    """What the files hold; `alone` by application and P-state, GHz."""

    alone: Mapping[tuple[str, float], AppAlone]
    runs: Sequence[GroupRun]
    notes: Sequence[str]


def read_groups(groups: Path, alone: Path) -> GroupFiles:
    """Raises UnusableError for other files, or those without a usable run."""
    notes: Counter[str] = Counter()
    found = _alone(alone, notes)
    runs = _runs(groups, found, notes)
    if not runs:
        raise UnusableError(f"{groups} has no run of which all applications were measured alone")
    return GroupFiles(found, runs, [f"{count} {what}" for what, count in sorted(notes.items())])


def _alone(path: Path, notes: Counter[str]) -> dict[tuple[str, float], AppAlone]:
    found: dict[tuple[str, float], AppAlone] = {}
    for row in rows_of(path, *_ALONE):
        freq_ghz, *figures = (positive(row, name) for name in _ALONE[1:])
        if not row["app"] or any(map(math.isnan, (freq_ghz, *figures))):
            notes["runs alone have something missing or no measurable number: left out"] += 1
        else:
            found.setdefault((row["app"], freq_ghz), AppAlone(*figures))
    return found


def _runs(
    path: Path, alone: Mapping[tuple[str, float], AppAlone], notes: Counter[str]
) -> list[GroupRun]:
    found = []
    for row in rows_of(path, *_GROUPS):
        neighbours = tuple(sorted(filter(None, row["neighbours"].split("+"))))
        freq_ghz, time_s, energy_j = (positive(row, name) for name in _GROUPS[2:])
        if any(map(math.isnan, (freq_ghz, time_s, energy_j))):
            notes["runs of groups have something missing or no measurable number: left out"] += 1
        elif any((app, freq_ghz) not in alone for app in (row["target"], *neighbours)):
            notes["runs of groups have an application not measured alone: left out"] += 1
        else:
            found.append(GroupRun(row["target"], neighbours, freq_ghz, time_s, energy_j))
    return found
