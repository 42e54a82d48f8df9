"""A campaign's results in the form that `coplace evaluate degradation` reads, and features alone.

Degradation is 100 (T_co - T_alone) / T_alone, of each repetition by its own runs alone (Zacarias et
al., "Intelligent colocation of HPC workloads", JPDC 2021, equation 1).
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations_with_replacement
from math import sqrt
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Final

from cli.profile.campaign import ALONE, REPORTER, Campaign, bubble_name
from cli.profile.running import TimedRun
from shared.process.folders import write_csv

PAIRS: Final = ("config", "app1", "app2", "meas_rel_perf1", "meas_rel_perf2", "noise1", "noise2")
SENSITIVITY: Final = ("config", "app", "bubble_mb", "solo_or_bubble_time_s")
CONTENTIOUSNESS: Final = ("config", "app", "reporter_score")
_STATISTICS: Final = ("mean", "min", "max", "sd")

Rows = Iterator[Sequence[object]]


class Results:
    """The results of a campaign, whole or as far as it is."""

    def __init__(self, campaign: Campaign, measured: Iterable[TimedRun]) -> None:
        self._campaign = campaign
        alone: dict[tuple[str, str, int], list[float]] = defaultdict(list)
        self._beside: dict[tuple[str, str, str], dict[int, float]] = defaultdict(dict)
        self._features: dict[tuple[str, str], list[Mapping[str, float]]] = defaultdict(list)
        for each in measured:
            run = each.run
            if run.beside == ALONE:
                alone[run.config, run.primary, run.repetition].append(each.run_s)
                self._features[run.config, run.primary].append(
                    {"run_s": each.run_s, **each.features}
                )
            else:
                self._beside[run.config, run.primary, run.beside][run.repetition] = each.run_s
        self._alone = {key: fmean(each) for key, each in alone.items()}

    def slowdowns(self, config: str, primary: str, beside: str) -> list[float]:
        """Return T_co / T_alone of each repetition that has both."""
        return [
            run_s / self._alone[config, primary, repetition]
            for repetition, run_s in self._beside[config, primary, beside].items()
            if (config, primary, repetition) in self._alone
        ]

    def pairs(self) -> Rows:
        """Return T_alone / T_co of both, the median of repetitions, with the standard error of
        their mean."""
        for config in self._campaign.placements:
            for one, other in combinations_with_replacement(self._campaign.applications, 2):
                both = self.slowdowns(config, one, other), self.slowdowns(config, other, one)
                if all(both):
                    measured = [1 / median(each) for each in both]
                    yield config, one, other, *measured, *map(_noise, both)

    def sensitivity(self) -> Rows:
        """Run time alone, and beside each bubble as it is slowed down by it."""
        for config in self._campaign.placements:
            for app in self._campaign.applications:
                alone = [s for (c, a, _), s in self._alone.items() if (c, a) == (config, app)]
                if alone:
                    yield config, app, 0, median(alone)
                for mib in self._campaign.bubbles:
                    if found := self.slowdowns(config, app, bubble_name(mib)):
                        yield config, app, mib, median(alone) * median(found)

    def contentiousness(self) -> Rows:
        """Return what the reporter suffered beside each application."""
        for config in self._campaign.placements:
            for app in self._campaign.applications:
                if found := self.slowdowns(config, REPORTER, app):
                    yield config, app, median(found)

    def alone(self) -> tuple[Sequence[str], Rows]:
        """Return columns and rows of what was counted of each application alone: mean, least, most
        and standard deviation of each counter over its runs (section 3.2)."""
        names = list(dict.fromkeys(n for runs in self._features.values() for r in runs for n in r))
        columns = [f"{name}_{statistic}" for name in names for statistic in _STATISTICS]
        return ("config", "app", *columns), self._alone_rows(names)

    def _alone_rows(self, names: Sequence[str]) -> Rows:
        for (config, app), runs in self._features.items():
            found: list[object] = []
            for name in names:
                values = [run[name] for run in runs if name in run]
                found += _statistics(values)
            yield config, app, *found


def write(folder: Path, results: Results) -> list[Path]:
    """Write every table into a CSV file of its own."""
    columns, rows = results.alone()
    tables = {
        "pairs.csv": (PAIRS, results.pairs()),
        "sensitivity.csv": (SENSITIVITY, results.sensitivity()),
        "contentiousness.csv": (CONTENTIOUSNESS, results.contentiousness()),
        "alone.csv": (columns, rows),
    }
    for name, (head, lines) in tables.items():
        write_csv(folder / name, head, (map(_shown, line) for line in lines))
    return [folder / name for name in tables]


def _shown(value: object) -> object:
    return f"{value:.6g}" if isinstance(value, float) else value


def _noise(values: Sequence[float]) -> object:
    """The standard error of their mean, as a share of it; of one nobody knows it."""
    return stdev(values) / sqrt(len(values)) / fmean(values) if len(values) > 1 else ""


def _statistics(values: Sequence[float]) -> list[object]:
    if not values:
        return [""] * len(_STATISTICS)
    return [fmean(values), min(values), max(values), stdev(values) if len(values) > 1 else 0.0]
