"""EAR's own reports: signatures of applications and of loops, as `eacct` and its daemons write
them.

The clock of a run is the one that was measured: a policy, turbo or a limit of power makes another
of the one that was asked for. EAR's TPI is bytes moved per instruction: in the reports that it
ships it equals MEM_GBS x time / INSTRUCTIONS.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path
from typing import Final

from coplace_client.checks import require_not_negative, require_positive
from coplace_client.errors import RejectedError
from coplace_client.signature import Signature
from services.energy.adapters import ear_columns as columns
from services.energy.adapters.ear_columns import ReportTable, read_tables
from shared.process.folders import write_csv
from shared.process.rows import FileRow

TPI_SCALE: Final = "ear-bytes-per-instruction"
ACCOUNTING_COLUMNS: Final = (
    *("job_id", "step_id", "app_id", "node", "freq_ghz", "avg_freq_ghz", "asked_ghz", "policy"),
    *("time_s", "power_w", "energy_j", "is_projectable", "mark"),
)
POWER_LIMIT: Final = "power limit"
UNLIKE: Final = "unlike the others"
MIXED: Final = "mixes phases"
NO_COUNTERS: Final = "no counters, energy alone"
NOTHING_MEASURED: Final = "no counters and no power"
COPY: Final = "copies of other rows"
BROKEN: Final = "more or fewer columns than the header"
# What is measured of a clock that was kept: mean clocks are a little below the ones asked for.
_KEPT: Final = 0.02
# How far one P-state is from the next, on most nodes.
_STEP_GHZ: Final = 0.1
# Where so many runs, and such a share of all, show exactly one power, it is a limit's.
_LIMITED_RUNS: Final = 3
_LIMITED_SHARE: Final = 0.01
# Limits are set to multiples of these.
_ROUND_W: Final = 5.0


@dataclass(frozen=True, slots=True)
class ReportedRun:
    """One step of a job on one node, or one of its loops; `time_s` of an iteration for a loop.

    CPI 0 is what EAR writes where it counted no instructions, as for a batch script. `mark` says
    why nothing is learned from the run, empty where something is.
    """

    job_id: str
    step_id: str
    app_id: str
    node: str
    freq_ghz: float
    avg_freq_ghz: float
    asked_ghz: float
    policy: str
    time_s: float
    power_w: float
    cpi: float
    tpi: float
    mem_gbps: float
    is_loop: bool = False
    mark: str = ""

    @property
    def energy_j(self) -> float:
        """Return what the node took over `time_s`, J."""
        return self.power_w * self.time_s

    @property
    def is_projectable(self) -> bool:
        """Return whether counters were read: without them the run counts for energy accounting
        only."""
        return self.cpi > 0

    @property
    def is_turbo(self) -> bool:
        """Return whether it ran above the clock that was asked for."""
        return 0 < self.asked_ghz * (1 + _KEPT) < self.avg_freq_ghz

    @property
    def is_slowed(self) -> bool:
        """Return whether it ran below the clock that was asked for, as policies make it."""
        return self.avg_freq_ghz < self.asked_ghz * (1 - _KEPT)

    def signature(self, node_model: str, tpi_scale: str = TPI_SCALE) -> Signature:
        """Return the signature that the model can project. Raises RejectedError for a run that is
        not projectable."""
        return Signature(
            app_id=self.app_id,
            node_model=node_model,
            freq_ghz=self.freq_ghz,
            time_s=self.time_s,
            power_w=self.power_w,
            cpi=self.cpi,
            tpi=self.tpi,
            mem_gbps=self.mem_gbps,
            tpi_scale=tpi_scale,
        )


@dataclass(frozen=True, slots=True)
class Report:
    """What was read of a file; `skipped` counts the rows that are no run, by their reason."""

    path: Path
    form: str
    separator: str
    rows: int
    runs: Sequence[ReportedRun]
    skipped: Counter[str]


def read_report(path: Path, seen: set[tuple[str, ...]] | None = None) -> Report:
    """Read all rows of a report of applications or loops, but those that were `seen`.

    A row that cannot be is skipped: one node's broken meter is no reason to refuse a month. Raises
    OSError when the report cannot be read and RejectedError, which names row and column, when it is
    not of this form, or no row is usable.
    """
    tables = read_tables(path)
    runs: list[ReportedRun] = []
    skipped: Counter[str] = Counter()
    refused: dict[str, RejectedError] = {}
    seen = set() if seen is None else seen
    for table in tables:
        skipped.update(BROKEN for _ in table.broken)
        for row in table.rows:
            values = tuple(row.values.values())
            if values in seen:
                skipped[COPY] += 1
                continue
            seen.add(values)
            try:
                run = _run(table, row)
            except RejectedError as error:
                first = refused.setdefault(error.field, error)
                skipped[f"{first} (the first of them)"] += 1
                continue
            if run is None:
                skipped[NOTHING_MEASURED] += 1
            else:
                runs.append(run)
    rows = sum(len(table.rows) + len(table.broken) for table in tables)
    if rows and not runs:
        _require_usable(tables, refused)
    forms = dict.fromkeys(table.form for table in tables)
    return Report(path, " and ".join(forms), tables[0].separator, rows, runs, skipped)


def _require_usable(tables: Sequence[ReportTable], refused: Mapping[str, RejectedError]) -> None:
    """Raise RejectedError for the first row that cannot be, where one is."""
    for error in refused.values():
        raise error
    for table in tables:
        for row in table.broken:
            width = len(table.titles)
            raise RejectedError("columns", f"must be {width}, as in the header, in {row.where}")


def read_reports(paths: Iterable[Path]) -> list[Report]:
    """Read several reports of one system: loops, which have no name, take that of their step, and
    what a limit of power held is marked. Raises as read_report does."""
    seen: set[tuple[str, ...]] = set()
    found = [read_report(path, seen) for path in paths]
    names = {
        (run.job_id, run.step_id): run.app_id
        for report in found
        for run in report.runs
        if not run.is_loop
    }
    limited = _limits_w([run for report in found for run in report.runs])

    def known(run: ReportedRun) -> ReportedRun:
        name = names.get((run.job_id, run.step_id), run.app_id) if run.is_loop else run.app_id
        is_limited = (run.node, run.power_w) in limited and run.is_projectable
        return replace(run, app_id=name, mark=POWER_LIMIT if is_limited else run.mark)

    return [replace(report, runs=[known(run) for run in report.runs]) for report in found]


def _run(table: ReportTable, row: FileRow) -> ReportedRun | None:
    """The run in a row; None where EAR measured nothing of it."""

    def text(what: str, default: str) -> str:
        return row.text(table.column[what], default) if what in table.column else default

    def number(what: str) -> float:
        field = table.column.get(what)
        if field is None:
            return 0.0
        return row.check(field, row.number_of(field, "0"), require_not_negative)

    job_id, step_id = text(columns.JOB, "0"), text(columns.STEP, "0")
    # EAR divides by instructions: where it counted none, this is no number.
    is_counted = isfinite(row.number_of(table.column[columns.CPI], "0"))
    cpi = number(columns.CPI) if is_counted else 0.0
    avg_ghz, asked_ghz = _ghz(number(columns.CLOCK)), _ghz(number(columns.ASKED_CLOCK))
    time_s, power_w = number(columns.TIME), number(columns.POWER)
    if cpi:
        for what in (columns.CLOCK, columns.TIME, columns.POWER):
            field = table.column[what]
            row.check(field, row.number_of(field), require_positive)
    else:
        avg_ghz = avg_ghz or _ghz(number(columns.MANAGER_CLOCK))
        asked_ghz = asked_ghz or _ghz(number(columns.MANAGER_ASKED))
        time_s = time_s or number(columns.MANAGER_TIME)
        power_w = power_w or number(columns.MANAGER_POWER)
    if not (time_s and power_w):
        return None
    run = ReportedRun(
        job_id=job_id,
        step_id=step_id,
        app_id=text(columns.APP, f"{job_id}.{step_id}"),
        node=text(columns.NODE, ""),
        freq_ghz=pstate_ghz(avg_ghz or asked_ghz, asked_ghz),
        avg_freq_ghz=avg_ghz or asked_ghz,
        asked_ghz=asked_ghz,
        policy=text(columns.POLICY, ""),
        time_s=time_s,
        power_w=power_w,
        cpi=cpi,
        tpi=number(columns.TPI) if cpi else 0.0,
        mem_gbps=number(columns.TRAFFIC) if cpi else 0.0,
        is_loop=table.is_of_loops,
    )
    if run.is_projectable:
        with row.named():
            run.signature("reported")
    return run


def _ghz(value: float) -> float:
    """A clock in GHz from one in kHz, MHz or GHz: none of these could be another."""
    if value >= 1e5:
        return value / 1e6
    return value / 1e3 if value >= 100 else value


def pstate_ghz(measured_ghz: float, asked_ghz: float) -> float:
    """Return the P-state that a run was in: the one asked for where that was kept, else the nearest
    to what was measured. EAR asks for turbo by the nominal clock and 1 MHz."""
    khz = round(asked_ghz * 1e6)
    nominal_ghz = (khz - 1000 if khz % 10_000 == 1000 else khz) / 1e6
    if nominal_ghz and abs(measured_ghz / nominal_ghz - 1) <= _KEPT:
        return nominal_ghz
    return round(measured_ghz / _STEP_GHZ) / round(1 / _STEP_GHZ)


def _limits_w(runs: Sequence[ReportedRun]) -> set[tuple[str, float]]:
    """Return node and power where a limit held the power: exactly one value, again and again.

    Where a meter knows small parts of a watt no two means are equal by chance, nor is one round.
    Limits are whole watts, or hold more than one application or clock. Where a meter does not, a
    limit is the most that a node ever drew, and drew more often than anything below.
    """
    measured = [run for run in runs if run.is_projectable]
    counts = Counter(run.power_w for run in measured)
    least = max(_LIMITED_RUNS, _LIMITED_SHARE * len(measured))
    alike = {(run.power_w, run.app_id, run.freq_ghz) for run in measured}
    several = Counter(watts for watts, _, _ in alike)
    limited = {
        watts
        for watts, count in counts.items()
        if count >= least and (watts.is_integer() or several[watts] > 1)
    }
    fine = sum(abs(10 * run.power_w - round(10 * run.power_w)) > 1e-6 for run in measured)
    if fine >= max(_LIMITED_RUNS, len(measured) / 2):
        limited |= {watts for watts in counts if watts % _ROUND_W == 0}
        return {(run.node, run.power_w) for run in measured if run.power_w in limited}
    most: dict[str, float] = {}
    for run in measured:
        most[run.node] = max(most.get(run.node, 0.0), run.power_w)
    often = max((n for watts, n in counts.items() if watts not in most.values()), default=0)
    return {
        (node, watts) for node, watts in most.items() if watts in limited and counts[watts] > often
    }


def write_accounting(path: Path, runs: Iterable[ReportedRun]) -> None:
    """Write the energy of every run, projectable or not."""
    rows = (
        [
            int(run.is_projectable) if column == "is_projectable" else getattr(run, column)
            for column in ACCOUNTING_COLUMNS
        ]
        for run in runs
    )
    write_csv(path, ACCOUNTING_COLUMNS, rows)
