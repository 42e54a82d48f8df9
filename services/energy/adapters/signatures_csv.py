"""Signatures of the published form: one row an application on a node model ("module").

The columns are those of `apps.csv` in IEEE DataPort 10.21227/e02v-y602. Three more may be there:
`freq_ghz`, the P-state measured at (without it the nominal one), `mem_gbps`, and `tpi_scale`,
which names the unit of TPI (without it that of the published file).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from coplace_client.checks import require_positive
from coplace_client.errors import RejectedError
from coplace_client.signature import Signature
from shared.domain import eamc_source
from shared.process.folders import write_csv
from shared.process.rows import FileRow, read_rows

REQUIRED: Final = ("app_id", "module", "time_s", "dc_node_power_w", "cpi", "tpi")
COLUMNS: Final = (
    *("app_id", "module", "freq_ghz", "time_s", "dc_node_power_w", "cpi", "tpi"),
    *("mem_gbps", "tpi_scale"),
)
# The value for the nominal P-state until the node model's table of them is known.
_ANY_GHZ: Final = 1.0
# Clocks as they are measured lie this near to their P-states, as a share.
_NEAR: Final = 0.03
# No turbo is faster than this, as a multiple of the highest P-state.
_MOST_TURBO: Final = 2.0


@dataclass(frozen=True, slots=True)
class SignatureRow:
    """A signature in a file; `is_nominal` says that the file leaves its P-state to the reader."""

    row: FileRow
    module: str
    module_idx: str
    signature: Signature
    is_nominal: bool


def read_signatures(path: Path, *, needs_pstate: bool = False) -> list[SignatureRow]:
    """Read all signatures of a file, each valid.

    Raises OSError when the file cannot be read and RejectedError, which names row and column, for
    a value that is no signature's, or a second signature of the same application, module and
    P-state unless `needs_pstate`, which asks for the column freq_ghz.
    """
    required = (*REQUIRED, "freq_ghz") if needs_pstate else REQUIRED
    found = [_signature_row(row) for row in read_rows(path, required)]
    if not needs_pstate:
        _require_once(found)
    return found


def nearest_pstate(measured_ghz: float, pstates_ghz: Sequence[float]) -> float:
    """Return the P-state that a run was in: the nearest to its clock, of a run above all of them
    the highest, where turbo is; the clock itself where none is near."""
    highest = max(pstates_ghz)
    if highest < measured_ghz <= _MOST_TURBO * highest:
        return highest
    nearest = min(pstates_ghz, key=lambda ghz: abs(ghz - measured_ghz))
    return nearest if abs(nearest / measured_ghz - 1) <= _NEAR else measured_ghz


def write_signatures(path: Path, signatures: Iterable[Signature]) -> None:
    """Write signatures in the form that `read_signatures` reads."""
    write_csv(path, COLUMNS, _lines(signatures))


def _lines(signatures: Iterable[Signature]) -> Iterator[Sequence[object]]:
    for s in signatures:
        yield (
            *(s.app_id, s.node_model, s.freq_ghz, s.time_s, s.power_w, s.cpi, s.tpi),
            *(s.mem_gbps, s.tpi_scale),
        )


def _signature_row(row: FileRow) -> SignatureRow:
    is_nominal = "freq_ghz" not in row.values
    texts = row.text("app_id"), row.text("module"), row.text("tpi_scale", eamc_source.TPI_SCALE)
    numbers = {field: row.number_of(field) for field in ("time_s", "cpi", "tpi")}
    numbers["power_w"] = row.check(
        "dc_node_power_w", row.number_of("dc_node_power_w"), require_positive
    )
    numbers["mem_gbps"] = row.number_of("mem_gbps", "0")
    numbers["freq_ghz"] = _ANY_GHZ if is_nominal else row.number_of("freq_ghz")
    app_id, module, tpi_scale = texts
    with row.named():
        signature = Signature(
            app_id=app_id, node_model=module, tpi_scale=tpi_scale, count=1, **numbers
        )
    return SignatureRow(row, module, row.text("module_idx", ""), signature, is_nominal)


def _require_once(found: Sequence[SignatureRow]) -> None:
    seen = set()
    for each in found:
        s = each.signature
        key = s.app_id, s.node_model, s.freq_ghz
        if key in seen:
            problem = f"{s.app_id} on {s.node_model} again at the same P-state in {each.row.where}"
            raise RejectedError("app_id", problem)
        seen.add(key)
