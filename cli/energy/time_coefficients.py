"""`coplace energy time-coefficients`: how long applications take on one module against another."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf, sqrt
from typing import Final

from rich.box import MARKDOWN
from rich.table import Table

from coplace_client.checks import require_count, require_not_negative
from coplace_client.errors import RejectedError
from coplace_client.numbers import finite_number, whole_number
from services.energy.adapters.matching import Matched
from shared.models.ear import project
from shared.models.time_coefficient import AppTime, Hardware, TimeCoefficients, clock_shares
from shared.numerics.elementary import exp, log

COLUMNS: Final = (
    *("app_id", "module", "reference", "time_coefficient", "relative_error", "is_measured"),
    *("clock_share", "estimate", "estimate_error", "plain", "plain_error"),
)


@dataclass(frozen=True, slots=True)
class CoefficientRow:
    """An application on a module against the reference.

    Of one that ran on both, `estimate` is what the others say of it, and the errors are those of
    `estimate` and of `plain`, cores x GHz alone, as logarithms; None for one that ran on one only.
    """

    app_id: str
    module: str
    reference: str
    value: float
    relative_error: float
    is_measured: bool
    clock_share: float
    estimate: float
    estimate_error: float | None
    plain: float
    plain_error: float | None

    @property
    def cells(self) -> Sequence[object]:
        """Return the cells in the order of COLUMNS."""
        return (
            *(self.app_id, self.module, self.reference, self.value, self.relative_error),
            *(int(self.is_measured), self.clock_share, self.estimate, self.estimate_error),
            *(self.plain, self.plain_error),
        )


def nodes(texts: Sequence[str]) -> dict[str, tuple[int, float]]:
    """Parse cores and peak bandwidth by module, from texts `MODULE=CORES` or `MODULE=CORES:GBPS`.

    Raises RejectedError.
    """
    return dict(map(_node, texts))


def compare_modules(
    several: Sequence[Matched], hardware: Mapping[str, tuple[int, float]]
) -> Iterator[CoefficientRow]:
    """Compare every application of each module with the first one. Raises RejectedError."""
    reference, *others = several
    here = _hardware(reference, hardware)
    for matched in others:
        there = _hardware(matched, hardware)
        times = _app_times(reference), _app_times(matched)
        found = TimeCoefficients(here, there, *times)
        errors = found.left_out()
        for app_id in sorted(times[0].keys() | times[1].keys()):
            known = times[0].get(app_id) or times[1][app_id]
            value, relative_error, is_measured = found.of(app_id)
            error, plain = errors.get(app_id), here.rate / there.rate
            yield CoefficientRow(
                *(app_id, matched.module, reference.module, value, relative_error, is_measured),
                clock_share=known.clock_share,
                estimate=value * exp(-(error or 0.0)),
                estimate_error=error,
                plain=plain,
                plain_error=log(value / plain) if is_measured else None,
            )


def table(rows: Iterable[CoefficientRow]) -> Table:
    """Return a table with a row for each application and module. Printed as Markdown, so that
    documents can show it."""
    titles = ("app", "module", "T / T reference", "follows the clock", "estimate", "cores x GHz")
    shown = Table(*titles, box=MARKDOWN)
    for row in rows:
        sure = "" if row.relative_error == inf else f" ± {row.relative_error:.1%}"
        shown.add_row(
            *(row.app_id, row.module, f"{row.value:.3f}{sure}", f"{row.clock_share:.0%}"),
            _with_error(row.estimate, row.estimate_error),
            _with_error(row.plain, row.plain_error),
        )
    return shown


def summary(rows: Sequence[CoefficientRow]) -> str | None:
    """Return how far off both estimates are, of applications that ran on both; None without two."""
    estimates = [row.estimate_error for row in rows if row.estimate_error is not None]
    plain = [row.plain_error for row in rows if row.plain_error is not None]
    if not estimates:
        return None
    return (
        f"error with the application left out, root mean square of {len(estimates)}: "
        f"{_root_mean_square(estimates):.1%}; of cores x GHz alone: {_root_mean_square(plain):.1%}"
    )


def _node(text: str) -> tuple[str, tuple[int, float]]:
    module, _, figures = text.partition("=")
    cores, _, gbps = figures.partition(":")
    try:
        found = whole_number(cores), finite_number(gbps or "0")
    except ValueError:
        problem = f"{text!r} must be MODULE=CORES or MODULE=CORES:GBPS, such as normal=48:256"
        raise RejectedError("node", problem) from None
    require_count("node", found[0])
    require_not_negative("node", found[1])
    return module, found


def _hardware(matched: Matched, hardware: Mapping[str, tuple[int, float]]) -> Hardware:
    if matched.module not in hardware:
        raise RejectedError("node", f"give --node {matched.module}=CORES or =CORES:GBPS")
    cores, gbps = hardware[matched.module]
    return Hardware(cores, matched.coefficients.pstates_ghz[-1], gbps)


def _app_times(matched: Matched) -> dict[str, AppTime]:
    """Left out is what has no projection at the nominal P-state."""
    projection = project(matched.coefficients, matched.signatures)
    usable = projection.available[:, -1]
    signatures = (s for s, use in zip(matched.signatures, usable, strict=True) if use)
    kept = projection.only(usable)
    rows = zip(signatures, kept.time_s[:, -1].tolist(), clock_shares(kept).tolist(), strict=True)
    return {s.app_id: AppTime(time_s, share, s.count) for s, time_s, share in rows}


def _with_error(value: float, error: float | None) -> str:
    return f"{value:.3f}" if error is None else f"{value:.3f} ({exp(-error) - 1:+.1%})"


def _root_mean_square(errors: Sequence[float]) -> float:
    return sqrt(sum(error * error for error in errors) / len(errors))
