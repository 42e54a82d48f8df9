"""EAR's own reports: `;`-separated application and loop signatures, kHz and GB/s.

EAR's TPI is bytes moved per instruction: in the reports that it ships it equals MEM_GBS x time /
INSTRUCTIONS. A P-state is DEF_FREQ_KHZ, the one asked for; AVG_CPUFREQ_KHZ is what turbo or a power
limit made of it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Final

from coplace_client.checks import require_not_negative, require_positive
from coplace_client.signature import Signature
from shared.process.folders import write_csv
from shared.process.rows import FileRow, read_rows

TPI_SCALE: Final = "ear-bytes-per-instruction"
REQUIRED: Final = (
    *("JOBID", "STEPID", "NODENAME", "AVG_CPUFREQ_KHZ", "DEF_FREQ_KHZ", "CPI", "TPI", "MEM_GBS"),
    "DC_NODE_POWER_W",
)
APPLICATION_TIME: Final = "TIME_SEC"
LOOP_TIME: Final = "ITER_TIME_SEC"
ACCOUNTING_COLUMNS: Final = (
    *("job_id", "step_id", "app_id", "node", "freq_ghz", "avg_freq_ghz", "time_s", "power_w"),
    *("energy_j", "is_projectable"),
)


@dataclass(frozen=True, slots=True)
class ReportedRun:
    """One step of a job on one node, or one of its loops; `time_s` of an iteration for a loop.

    CPI 0 is what EAR writes where it counted no instructions, as for a batch script.
    """

    job_id: str
    step_id: str
    app_id: str
    node: str
    freq_ghz: float
    avg_freq_ghz: float
    time_s: float
    power_w: float
    cpi: float
    tpi: float
    mem_gbps: float

    @property
    def energy_j(self) -> float:
        """Return what the node took over `time_s`, J."""
        return self.power_w * self.time_s

    @property
    def is_projectable(self) -> bool:
        """Return whether counters were read: without them the run counts for energy accounting
        only."""
        return self.cpi > 0

    def signature(self, node_model: str) -> Signature:
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
            tpi_scale=TPI_SCALE,
        )


def read_report(path: Path) -> list[ReportedRun]:
    """Read all rows of an application or loop report.

    Raises OSError when it cannot be read and RejectedError, which names row and column, when it is
    not of this form.
    """
    rows = read_rows(path, REQUIRED, delimiter=";")
    is_loop = LOOP_TIME in rows[0].values
    return [_run(row, LOOP_TIME if is_loop else APPLICATION_TIME) for row in rows]


def _run(row: FileRow, time_field: str) -> ReportedRun:
    job_id, step_id = row.text("JOBID"), row.text("STEPID")
    return ReportedRun(
        job_id=job_id,
        step_id=step_id,
        app_id=row.text("JOBNAME", f"{job_id}.{step_id}"),
        node=row.text("NODENAME"),
        freq_ghz=_positive(row, "DEF_FREQ_KHZ") / 1e6,
        avg_freq_ghz=_positive(row, "AVG_CPUFREQ_KHZ") / 1e6,
        time_s=_positive(row, time_field),
        power_w=_positive(row, "DC_NODE_POWER_W"),
        cpi=_not_negative(row, "CPI"),
        tpi=_not_negative(row, "TPI"),
        mem_gbps=_not_negative(row, "MEM_GBS"),
    )


def _positive(row: FileRow, field: str) -> float:
    return row.check(field, row.number_of(field), require_positive)


def _not_negative(row: FileRow, field: str) -> float:
    return row.check(field, row.number_of(field), require_not_negative)


def signatures_of(runs: Iterable[ReportedRun], node_model: str) -> list[Signature]:
    """Return one signature for each application and P-state: the mean of its runs, nodes and loops
    that have counters. Those without have none."""
    groups: dict[tuple[str, float], list[Signature]] = {}
    for run in runs:
        if run.is_projectable:
            groups.setdefault((run.app_id, run.freq_ghz), []).append(run.signature(node_model))
    return [_mean(group) for group in groups.values()]


def _mean(group: list[Signature]) -> Signature:
    return replace(
        group[0],
        time_s=fmean(s.time_s for s in group),
        power_w=fmean(s.power_w for s in group),
        cpi=fmean(s.cpi for s in group),
        tpi=fmean(s.tpi for s in group),
        mem_gbps=fmean(s.mem_gbps for s in group),
        count=len(group),
    )


def write_accounting(path: Path, runs: Iterable[ReportedRun]) -> None:
    """Write the energy of every run, projectable or not."""
    *columns, _ = ACCOUNTING_COLUMNS
    rows = (
        (*(getattr(run, column) for column in columns), int(run.is_projectable)) for run in runs
    )
    write_csv(path, ACCOUNTING_COLUMNS, rows)
