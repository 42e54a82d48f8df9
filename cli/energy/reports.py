"""`coplace energy import`: EAR's reports, and what was understood of them."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from cli.output import Row
from services.energy.adapters.ear_kinds import Understood, separate_kinds
from services.energy.adapters.ear_report import (
    NO_COUNTERS,
    TPI_SCALE,
    Report,
    ReportedRun,
    read_reports,
    write_accounting,
)
from services.energy.adapters.signatures_csv import write_signatures

COLUMNS: Final = ("application", "runs", "nodes", "GHz", "W", "s", "CPI", "turbo", "slowed")
_SEPARATORS: Final = {";": "';'", ",": "','", "\t": "tabs", "|": "'|'"}


@dataclass(frozen=True, slots=True)
class ImportedReports:
    """Reports, and what they say together."""

    reports: Sequence[Report]
    understood: Understood

    @classmethod
    def read(cls, paths: Sequence[Path]) -> Self:
        """Read reports of one node model. Raises OSError and RejectedError."""
        reports = read_reports(paths)
        return cls(reports, separate_kinds([run for report in reports for run in report.runs]))

    def write(self, module: str, out: Path, tpi_scale: str) -> Iterator[str]:
        """Write the signatures and the energy of every run; yield what is where."""
        kinds = self.understood.kinds
        signatures = [s for kind in kinds for s in kind.signatures(module, tpi_scale or TPI_SCALE)]
        write_signatures(out / "signatures.csv", signatures)
        write_accounting(out / "accounting.csv", self.understood.runs)
        yield f"{len(signatures)} signatures are in {out / 'signatures.csv'}"
        yield f"{len(self.understood.runs)} runs are in {out / 'accounting.csv'}"

    def summary(self) -> Iterator[str]:
        """Yield a line for each file, and lines for what was left out of all, with the reasons."""
        marks = {id(run): marked.mark for run, marked in self._marked()}
        for report in self.reports:
            steps = {(run.job_id, run.step_id) for run in report.runs}
            applications = {run.app_id for run in report.runs if run.is_projectable}
            yield (
                f"{report.path}: {report.form}, separated by {_SEPARATORS[report.separator]}: "
                f"{report.rows} rows, {len(steps)} steps, {len(applications)} applications"
            )
            skipped = report.skipped + Counter(
                NO_COUNTERS for run in report.runs if not run.is_projectable
            )
            yield from _counted("skipped", skipped)
            yield from _counted(
                "marked", Counter(m for run in report.runs if (m := marks[id(run)]))
            )

    def _marked(self) -> Iterator[tuple[ReportedRun, ReportedRun]]:
        read = [run for report in self.reports for run in report.runs]
        return zip(read, self.understood.runs, strict=True)

    def rows(self) -> Iterator[Row]:
        """Yield a row for each kind of runs at each clock."""
        for kind in self.understood.kinds:
            for at in kind.clocks():
                steps = [step for step in kind.steps if step.mean.freq_ghz == at.freq_ghz]
                yield {
                    "application": kind.app_id,
                    "runs": at.runs,
                    "nodes": max(len({run.node for run in step.runs}) for step in steps),
                    "GHz": at.freq_ghz,
                    "W": round(at.power_w, 1),
                    "s": round(at.time_s, 2),
                    "CPI": round(at.cpi, 4),
                    "turbo": sum(step.mean.is_turbo for step in steps),
                    "slowed": sum(step.mean.is_slowed for step in steps),
                }


def _counted(what: str, counts: Counter[str]) -> Iterator[str]:
    for reason, count in sorted(counts.items()):
        yield f"  {what}: {count} rows: {reason}"
