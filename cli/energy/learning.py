"""`coplace energy learn`: from measured kernels to tables of coefficients."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from pathlib import Path

import numpy as np

from coplace_client.errors import RejectedError
from services.energy.adapters.coefficients_csv import SUFFIX, write_coefficients_file
from services.energy.adapters.errors_csv import errors_file
from services.energy.adapters.signatures_csv import SignatureRow, read_signatures
from services.energy.model import Fit, KernelRun, fit, refusals
from shared.domain.coefficients import Coefficients
from shared.process.folders import path_within, write_csv

ERROR_COLUMNS = (
    *("from_ghz", "to_ghz", "kernels", "power", "time", "power_left_out", "time_left_out"),
    "refused",
)

Kernels = dict[str, dict[float, KernelRun]]


@dataclass(frozen=True, slots=True, eq=False)
class Learned:
    """The coefficients of one module and the kernels behind them."""

    module: str
    tpi_scale: str
    kernels: Kernels
    fit: Fit

    @property
    def coefficients(self) -> Coefficients:
        """Return the coefficients, as signatures are projected with."""
        a, b, c = np.moveaxis(self.fit.power, -1, 0)
        d, e, f = np.moveaxis(self.fit.cpi, -1, 0)
        return Coefficients(
            node_model=self.module,
            version=f"{self.module}{SUFFIX}",
            tpi_scale=self.tpi_scale,
            pstates_ghz=self.fit.pstates_ghz,
            a=a,
            b=b,
            c=c,
            d=d,
            e=e,
            f=f,
            available=self.fit.available,
        )

    @property
    def notes(self) -> list[str]:
        """Return one line for each reason why coefficients could not be learned."""
        refused = sorted(refusals(self.fit).items(), key=lambda pair: (pair[1], pair[0]))
        return [
            f"{self.module}: no coefficients for {_as_pairs(pair for pair, _ in group)}: {reason}"
            for reason, group in groupby(refused, key=lambda pair: pair[1])
        ]

    @property
    def summary(self) -> str:
        """Return the fit in one line."""
        learned = int(self.fit.available.sum()) - len(self.fit.pstates_ghz)
        return (
            f"{self.module}: {learned} pairs from {self.fit.kernels} kernels, residuals "
            f"power {self.fit.power_residual:.2%}, time {self.fit.time_residual:.2%}"
        )


def learn(path: Path) -> list[Learned]:
    """Learn every module of a file of kernels; a kernel measured again counts with its mean.

    Raises OSError, and RejectedError for a bad row, for TPI scales that are mixed, and for a module
    that no pair of P-states could be learned of.
    """
    rows = sorted(read_signatures(path, needs_pstate=True), key=attrgetter("module"))
    return [_learned(module, list(group)) for module, group in groupby(rows, attrgetter("module"))]


def _learned(module: str, rows: Sequence[SignatureRow]) -> Learned:
    first = rows[0].signature.tpi_scale
    for each in rows:
        if each.signature.tpi_scale != first:
            problem = f"{each.signature.tpi_scale} and {first} are mixed: keep one"
            raise RejectedError("tpi_scale", f"{problem}, in {each.row.where}")
    kernels = _mean_runs(rows)
    pstates_ghz = sorted({ghz for runs in kernels.values() for ghz in runs})
    found = Learned(module, first, kernels, fit(pstates_ghz, kernels))
    if not (found.fit.available & ~np.eye(len(pstates_ghz), dtype=np.bool_)).any():
        reason = "; ".join(found.notes) or f"{module} was measured at one P-state only"
        raise RejectedError("kernels", f"nothing can be learned: {reason}")
    return found


def _mean_runs(rows: Iterable[SignatureRow]) -> Kernels:
    runs: dict[tuple[str, float], list[KernelRun]] = defaultdict(list)
    for each in rows:
        s = each.signature
        runs[s.app_id, s.freq_ghz].append(KernelRun(s.time_s, s.power_w, s.cpi, s.tpi))
    kernels: Kernels = defaultdict(dict)
    for (kernel, ghz), several in runs.items():
        kernels[kernel][ghz] = KernelRun(*np.mean(several, axis=0).tolist())
    return kernels


def _as_pairs(pairs: Iterable[tuple[float, float]]) -> str:
    listed = list(pairs)
    first = ", ".join(f"{origin}>{target} GHz" for origin, target in listed[:4])
    return first if len(listed) <= 4 else f"{first} and {len(listed) - 4} more"


def write(found: Learned, folder: Path) -> tuple[Path, Path]:
    """Write the table and its errors; their paths."""
    table = path_within(folder, f"{found.module}{SUFFIX}.csv")
    write_coefficients_file(table, found.coefficients)
    errors = errors_file(table)
    _write_errors(errors, found.fit)
    return table, errors


def _write_errors(path: Path, found: Fit) -> None:
    """Relative root mean squares of each pair: of the fit, and of each kernel left out of it."""
    write_csv(path, ERROR_COLUMNS, _error_rows(found))


def _error_rows(found: Fit) -> Iterator[Sequence[object]]:
    errors, why = found.errors, refusals(found)
    if errors is None:
        return
    tables = (errors.power, errors.time, errors.power_left_out, errors.time_left_out)
    for i, from_ghz in enumerate(found.pstates_ghz):
        for j, to_ghz in enumerate(found.pstates_ghz):
            if i != j:
                reason = why.get((from_ghz, to_ghz), "")
                figures = [float(each[i, j]) if not reason else "" for each in tables]
                yield from_ghz, to_ghz, int(errors.kernels[i, j]), *figures, reason
