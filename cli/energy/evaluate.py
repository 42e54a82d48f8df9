"""`coplace energy evaluate`: how far predictions are off at clocks that they have not seen.

Of each application that ran at three clocks or more, each clock is left out in turn and predicted
from the others: by coefficients from the highest of them, by the application's own history, and by
both (docs/adr/0107).
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import nan
from pathlib import Path
from statistics import fmean, stdev
from typing import Final, NamedTuple

from cli.energy.reports import ImportedReports
from cli.output import Row
from coplace_client.errors import RejectedError
from services.energy.adapters.coefficients_csv import read_coefficients_file
from services.energy.adapters.ear_kinds import Clock
from services.energy.adapters.ear_report import TPI_SCALE
from services.energy.adapters.errors_csv import errors_file, with_errors
from services.energy.model import MIN_KERNELS, KernelRun, fit
from shared.domain.coefficients import Coefficients
from shared.models.ear import project
from shared.models.own_history import UNKNOWN_SD, ClockRuns, OwnHistory, Uncertain, blended, judged

_WAYS: Final = ("coefficients", "history", "both")
COLUMNS: Final = (
    *("application", "clocks", "runs", "left out"),
    *(f"{unit} {way}" for unit in ("s", "W") for way in _WAYS),
)
# Fewer clocks leave none, or one, to predict the one that is left out from.
MIN_CLOCKS: Final = 3
ALL: Final = "all"
# How much applications differ in how time and power change with the clock, where one is known.
_ONE_KERNEL_SD: Final = 0.2
_NODE_MODEL: Final = "reported"


class ProjectedClock(NamedTuple):
    """Time and power at a clock, and how far they may be off as shares, NaN where nobody knows."""

    time_s: float
    power_w: float
    time_sd: float = nan
    power_sd: float = nan


Applications = Mapping[str, Sequence[Clock]]


@dataclass(slots=True)
class LeftOutErrors:
    """How far predictions of one application are off, by unit and way, as shares."""

    clocks: int
    runs: int
    of: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    def note(self, way: str, found: Uncertain | None, measured: float) -> None:
        """Take one prediction in, if there is one."""
        if found is not None:
            self.of[way].append(abs(found.value / measured - 1))


def rows(reports: Sequence[Path], coefficients: Path | None, tpi_scale: str) -> list[Row]:
    """Evaluate the applications of reports: a row for each, and one for all. Raises OSError, and
    RejectedError where none ran at enough clocks."""
    kinds = ImportedReports.read(reports).understood.kinds
    known = {kind.app_id: kind.clocks() for kind in kinds}
    main = [kind.app_id for kind in kinds if kind.is_main]
    wanted = [app_id for app_id, clocks in known.items() if len(clocks) >= MIN_CLOCKS]
    if not wanted:
        problem = f"no application ran at {MIN_CLOCKS} clocks or more: nothing can be left out"
        raise RejectedError("reports", problem)
    scale = tpi_scale or TPI_SCALE
    table = None if coefficients is None else _read(coefficients, scale)
    found = {}
    for app_id in wanted:
        # Short steps beside the main ones are poor kernels; they teach where nothing else does.
        others = [other for other in main if other != app_id] or [*known.keys() - {app_id}]
        kernels = {other: known[other] for other in sorted(others)}
        found[app_id] = _left_out(known[app_id], _Predictor(app_id, kernels, table, scale))
    everything = LeftOutErrors(0, sum(each.runs for each in found.values()))
    for each in found.values():
        everything.clocks = max(everything.clocks, each.clocks)
        for name, errors in each.of.items():
            everything.of[name] += errors
    return [_row(app_id, each) for app_id, each in (*sorted(found.items()), (ALL, everything))]


@dataclass(frozen=True, slots=True)
class _Predictor:
    """What coefficients say of an application: those of a file, or those that all others teach."""

    app_id: str
    others: Applications
    table: Coefficients | None
    tpi_scale: str

    def project(self, before: Clock, at: Clock) -> ProjectedClock | None:
        """Project from one clock to another, equation 3 with the clocks as they were measured; None
        where there are no coefficients."""
        found = self._by_table(before, at) if self.table else self._by_others(before, at)
        if found is None or min(found.time_s, found.power_w) <= 0:
            return None
        clocks = before.measured_ghz / before.freq_ghz * at.freq_ghz / at.measured_ghz
        return found._replace(time_s=found.time_s * clocks)

    def _by_table(self, before: Clock, at: Clock) -> ProjectedClock | None:
        if self.table is None or not {before.freq_ghz, at.freq_ghz} <= {*self.table.pstates_ghz}:
            return None
        found = project(self.table, [before.signature(self.app_id, _NODE_MODEL, self.tpi_scale)])
        column = self.table.index_of(at.freq_ghz)
        if not found.available[0, column]:
            return None
        arrays = (found.time_s, found.power_w, found.time_sd, found.power_sd)
        return ProjectedClock(*(float(array[0, column]) for array in arrays))

    def _by_others(self, before: Clock, at: Clock) -> ProjectedClock | None:
        """As taught by the others that ran at both: the six coefficients by at least four of them,
        by fewer only how power and cycles per instruction change in the mean."""
        clocks = sorted((before.freq_ghz, at.freq_ghz))
        kernels = {}
        for app_id, there in self.others.items():
            runs = {each.freq_ghz: _kernel(each) for each in there if each.freq_ghz in clocks}
            if len(runs) == len(clocks):
                kernels[app_id] = runs
        if len(kernels) < MIN_KERNELS:
            return _in_proportion(list(kernels.values()), before, at)
        learned = fit(clocks, kernels)
        pair = clocks.index(before.freq_ghz), clocks.index(at.freq_ghz)
        if not learned.available[pair] or learned.uncertainty is None:
            return _in_proportion(list(kernels.values()), before, at)
        (a, b, c), (d, e, f) = learned.power[pair].tolist(), learned.cpi[pair].tolist()
        cpi = d * before.cpi + e * before.tpi + f
        return ProjectedClock(
            before.time_s * cpi / before.cpi * before.freq_ghz / at.freq_ghz,
            a * before.power_w + b * before.tpi + c,
            float(learned.uncertainty.time_sd[pair]),
            float(learned.uncertainty.power_sd[pair]),
        )


def _in_proportion(
    kernels: Sequence[Mapping[float, KernelRun]], before: Clock, at: Clock
) -> ProjectedClock | None:
    if not kernels:
        return None
    pairs = [(runs[before.freq_ghz], runs[at.freq_ghz]) for runs in kernels]
    cpi = [after.cpi / first.cpi for first, after in pairs]
    power = [after.power_w / first.power_w for first, after in pairs]
    time_s = before.time_s * fmean(cpi) * before.freq_ghz / at.freq_ghz
    return ProjectedClock(time_s, before.power_w * fmean(power), _differ(cpi), _differ(power))


def _differ(ratios: Sequence[float]) -> float:
    """How much applications differ in a ratio, as a share; one alone says nothing of it."""
    if len(ratios) == 1:
        return _ONE_KERNEL_SD
    return max(stdev(ratios) / fmean(ratios), UNKNOWN_SD)


def _left_out(clocks: Sequence[Clock], predictor: _Predictor) -> LeftOutErrors:
    """The errors of an application with each of its clocks left out."""
    found = LeftOutErrors(len(clocks), sum(each.runs for each in clocks))
    for left_out in clocks:
        others = [each for each in clocks if each is not left_out]
        history = OwnHistory.fit(
            ClockRuns(each.measured_ghz, each.time_s, each.power_w, each.runs) for each in others
        )
        time_s = None if history is None else history.time_s(left_out.measured_ghz)
        power_w = None if history is None else history.power_w(left_out.measured_ghz)
        by_time, by_power = _by_coefficients(predictor, others, left_out)
        for unit, measured, ways in (
            ("s", left_out.time_s, (by_time, time_s, blended(by_time, time_s))),
            ("W", left_out.power_w, (by_power, power_w, blended(by_power, power_w))),
        ):
            for way, estimate in zip(_WAYS, ways, strict=True):
                found.note(f"{unit} {way}", estimate, measured)
    return found


def _by_coefficients(
    predictor: _Predictor, others: Sequence[Clock], at: Clock
) -> tuple[Uncertain | None, Uncertain | None]:
    """What coefficients say of time and power, from the highest clock that they lead from; how far
    that may be off by what they say of the other clocks."""
    for before in reversed(others):
        point = predictor.project(before, at)
        if point is None:
            continue
        checks = [(predictor.project(before, each), each) for each in others if each is not before]
        seen = [(check, each) for check, each in checks if check is not None]
        time_sd = judged(point.time_sd, [c.time_s / each.time_s - 1 for c, each in seen])
        power_sd = judged(point.power_sd, [c.power_w / each.power_w - 1 for c, each in seen])
        return Uncertain(point.time_s, time_sd), Uncertain(point.power_w, power_sd)
    return None, None


def _row(app_id: str, found: LeftOutErrors) -> Row:
    percents = {
        name: f"{100 * fmean(errors):.2f} %" if (errors := found.of[name]) else None
        for name in COLUMNS[4:]
    }
    left_out = max(map(len, found.of.values()), default=0)
    return {
        "application": app_id,
        "clocks": found.clocks,
        "runs": found.runs,
        "left out": left_out,
        **percents,
    }


def _read(path: Path, tpi_scale: str) -> Coefficients:
    table = read_coefficients_file(path, _NODE_MODEL)
    if table.tpi_scale != tpi_scale:
        problem = f"TPI of {path} is in {table.tpi_scale}, that of the reports in {tpi_scale}"
        raise RejectedError("tpi_scale", f"{problem}: say what the reports have")
    errors = errors_file(path)
    return with_errors(table, errors) if errors.exists() else table


def _kernel(at: Clock) -> KernelRun:
    return KernelRun(at.time_s, at.power_w, at.cpi, at.tpi)
