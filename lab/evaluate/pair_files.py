"""Files of pairs, of sensitivity curves and of contentiousness, as CSV.

Pairs: config, app1, app2, meas_rel_perf1, meas_rel_perf2 (T_alone / T_co) and, where bubble-up said
something of them, pred_rel_perf1 and pred_rel_perf2. Sensitivity: config, app, bubble_mb,
solo_or_bubble_time_s. Contentiousness: config, app, reporter_score. `605.mcf_s` and `605_mcf_s` are
one name.
"""

import csv
import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from coplace_client.errors import UnusableError
from shared.colocation.measured import BUBBLES, Floats, Profiles

# A configuration with fewer pairs was broken off: what it holds compares with no other.
LEAST_PAIRS: Final = 10
# Nobody measures less or more, in any unit. The ratio of any two of them is a number in the 32 bits
# that trees read, and the sum of squares of such ratios one in 64.
LEAST: Final = 1e-18
MOST: Final = 1e18
# Nor does anybody run a million times as long beside another, or as short.
MOST_TIMES: Final = 1e6
_MOST_CHARACTERS: Final = 1024

Curve = dict[float, float]


class _Measured(NamedTuple):
    """T_alone / T_co of a target, and what bubble-up said of it; NaN where it said nothing."""

    rel_perf: float
    bubble_up: float


@dataclass(frozen=True, slots=True, eq=False)
class PairFiles:
    """What the files hold. `degradation` and `bubble_up` have the shape (machines, targets,
    neighbours): T_co / T_alone - 1 as measured and as bubble-up said; NaN where nobody did."""

    profiles: Profiles
    degradation: Floats
    bubble_up: Floats
    notes: list[str]


def read_pairs(pairs: Path, sensitivity: Path, contentiousness: Path) -> PairFiles:
    """Raises UnusableError for other files, or those with nothing to learn from."""
    notes: Counter[str] = Counter()
    measured = _measured(pairs, notes)
    curves = _curves(sensitivity, notes)
    scores = _scores(contentiousness, notes)
    told = _dropped(measured, curves)
    if not measured:
        least = f"at least {LEAST_PAIRS} usable pairs"
        raise UnusableError(f"{pairs} has no configuration with {least}")
    machines = sorted(measured)
    apps = sorted({app for of in measured.values() for pair in of for app in pair})
    profiles = _profiles(machines, apps, curves, scores, notes)
    shape = (len(machines), len(apps), len(apps))
    degradation, bubble_up = np.full(shape, np.nan), np.full(shape, np.nan)
    at = {app: index for index, app in enumerate(apps)}
    for number, machine in enumerate(machines):
        for (target, neighbour), each in measured[machine].items():
            cell = number, at[target], at[neighbour]
            degradation[cell] = 1 / each.rel_perf - 1
            bubble_up[cell] = 1 / each.bubble_up - 1
    counted = [f"{count} {what}" for what, count in sorted(notes.items())]
    return PairFiles(profiles, degradation, bubble_up, told + counted)


def _measured(path: Path, notes: Counter[str]) -> dict[str, dict[tuple[str, str], _Measured]]:
    """By configuration, target and neighbour."""
    found: dict[str, dict[tuple[str, str], _Measured]] = defaultdict(dict)
    for row in rows_of(path, "config", "app1", "app2", "meas_rel_perf1", "meas_rel_perf2"):
        apps = _name(row["app1"]), _name(row["app2"])
        if not all(apps):
            notes["rows of pairs name no two applications: left out"] += 1
            continue
        for number, pair in ("1", apps), ("2", apps[::-1]):
            rel_perf = _relative(row, f"meas_rel_perf{number}")
            if math.isnan(rel_perf):
                notes["sides of pairs have no usable measurement: left out"] += 1
            else:
                said = _relative(row, f"pred_rel_perf{number}")
                found[row["config"]].setdefault(pair, _Measured(rel_perf, said))
    return found


def _dropped(
    measured: dict[str, dict[tuple[str, str], _Measured]],
    curves: Mapping[tuple[str, str], Curve],
) -> list[str]:
    """Take out configurations that were broken off, and all but one of those that hold the same
    measurements: the one with the most points of curves stays. Says what went."""
    broken_off = [config for config, of in measured.items() if len(of) < 2 * LEAST_PAIRS]
    told = [
        f"configuration {config} has {len(measured.pop(config))} sides of pairs: left out"
        for config in broken_off
    ]
    points = {c: sum(len(of) for key, of in curves.items() if key[0] == c) for c in measured}
    kept: dict[frozenset[tuple[tuple[str, str], float]], str] = {}
    for config in sorted(measured, key=lambda each: (-points[each], each)):
        same = frozenset((pair, each.rel_perf) for pair, each in measured[config].items())
        if same in kept:
            told.append(f"configuration {config} holds what {kept[same]} holds: left out")
            del measured[config]
        else:
            kept[same] = config
    return told


def _curves(path: Path, notes: Counter[str]) -> dict[tuple[str, str], Curve]:
    """Run time by bubble size, of each configuration and application."""
    found: dict[tuple[str, str], Curve] = defaultdict(dict)
    for row in rows_of(path, "config", "app", "bubble_mb", "solo_or_bubble_time_s"):
        size, time_s = _number(row, "bubble_mb"), positive(row, "solo_or_bubble_time_s")
        if math.isnan(time_s) or not 0 <= size <= MOST:
            notes["points of sensitivity curves are not usable: left out"] += 1
        else:
            found[row["config"], _name(row["app"])].setdefault(size, time_s)
    return found


def _scores(path: Path, notes: Counter[str]) -> dict[tuple[str, str], float]:
    found: dict[tuple[str, str], float] = {}
    for row in rows_of(path, "config", "app", "reporter_score"):
        score = positive(row, "reporter_score")
        if math.isnan(score):
            notes["scores of contentiousness are not usable: left out"] += 1
        else:
            found.setdefault((row["config"], _name(row["app"])), score)
    return found


def _profiles(
    machines: Sequence[str],
    apps: Sequence[str],
    curves: Mapping[tuple[str, str], Curve],
    scores: Mapping[tuple[str, str], float],
    notes: Counter[str],
) -> Profiles:
    """`a/b` has the profiles of the configuration `a` where it has none of its own."""
    shape = (len(machines), len(apps))
    found = np.full((*shape, BUBBLES), np.nan)
    contentiousness, alone_s = np.full(shape, np.nan), np.full(shape, np.nan)
    for cell in np.ndindex(shape):
        config, app = machines[cell[0]], apps[cell[1]]
        root = config.split("/", maxsplit=1)[0]
        curve = curves.get((config, app)) or curves.get((root, app)) or {}
        contentiousness[cell] = scores.get((config, app), scores.get((root, app), math.nan))
        if 0.0 in curve:
            alone_s[cell] = curve[0.0]
            found[cell] = _read_at_bubbles(curve)
        else:
            notes["applications have no sensitivity curve from 0 on: the median one"] += 1
        if math.isnan(contentiousness[cell]):
            notes["applications have no contentiousness: the median one"] += 1
    return Profiles(tuple(machines), tuple(apps), found, contentiousness, alone_s)


def _read_at_bubbles(curve: Curve) -> Floats:
    """T / T_alone - 1 at equal shares of the largest bubble, on straight lines between points."""
    sizes = np.array(sorted(curve))
    ratios = np.array([curve[size] for size in sizes.tolist()]) / curve[0.0]
    return np.interp(np.linspace(0.0, sizes[-1], BUBBLES), sizes, ratios) - 1


def rows_of(path: Path, *columns: str) -> list[dict[str, str]]:
    """Read rows of a CSV that has these columns, by column. Raises UnusableError where it is not a
    CSV, lacks a column or has no row."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file, restval="")
            if missing := sorted(set(columns) - set(reader.fieldnames or ())):
                raise UnusableError(f"{path} has no column {missing[0]}")
            rows = [{name: text for name, text in row.items() if name} for row in reader]
    except (UnicodeDecodeError, csv.Error) as error:
        raise UnusableError(f"{path} is not CSV: {error}") from error
    if not rows:
        raise UnusableError(f"{path} has no rows")
    return rows


def _name(app: str) -> str:
    return app[:_MOST_CHARACTERS].strip().replace(".", "_")


def _number(row: Mapping[str, str], name: str) -> float:
    try:
        return float(row.get(name) or "nan")
    except ValueError:
        return math.nan


def _relative(row: Mapping[str, str], name: str) -> float:
    """NaN for what is missing, no number, or not within a part of MOST_TIMES and MOST_TIMES."""
    value = _number(row, name)
    return value if 1 / MOST_TIMES <= value <= MOST_TIMES else math.nan


def positive(row: Mapping[str, str], name: str) -> float:
    """Parse a value; NaN for what is missing, not a number, or not within LEAST and MOST."""
    value = _number(row, name)
    return value if LEAST <= value <= MOST else math.nan
