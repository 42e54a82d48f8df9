"""Which signatures of a file go with which file of coefficients."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from coplace_client.errors import RejectedError
from coplace_client.signature import Signature
from services.energy.adapters.coefficients_csv import read_coefficients_file
from services.energy.adapters.signatures_csv import (
    SignatureRow,
    nearest_pstate,
    read_signatures,
)
from shared.domain.coefficients import Coefficients


@dataclass(frozen=True, slots=True, eq=False)
class Matched:
    """The coefficients of one module and the signatures to project with them, one an application.

    `known` has those of each at all the clocks that it was measured at, as they were measured.
    `is_named` is False where only the lack of another module says that they belong together.
    """

    coefficients: Coefficients
    signatures: tuple[Signature, ...]
    known: tuple[tuple[Signature, ...], ...]
    is_named: bool

    @property
    def module(self) -> str:
        """Return the node model, as both files call it."""
        return self.coefficients.node_model

    @property
    def doubts(self) -> list[str]:
        """Return what a reader should check."""
        if self.is_named:
            return []
        name = self.coefficients.version
        return [f"{name} names no module: taken for {self.module}, the only one with signatures"]


def read_matched(
    coefficients: Sequence[Path], signatures: Path, modules: Sequence[str] = ()
) -> list[Matched]:
    """Read each file of coefficients with its rows of the file of signatures.

    `modules` names the module of each file (its name or index), or none: then the file's own name
    says it, or there is only one. An application measured at several P-states is projected from
    the highest. Raises OSError and RejectedError.
    """
    if modules and len(modules) != len(coefficients):
        problem = f"must be given once for each of {len(coefficients)} files of coefficients"
        raise RejectedError("module", problem)
    rows = read_signatures(signatures)
    asked = modules or [""] * len(coefficients)
    matched = [
        _matched(path, rows, module) for path, module in zip(coefficients, asked, strict=True)
    ]
    names = [each.module for each in matched]
    if len(set(names)) < len(names):
        raise RejectedError("module", f"{', '.join(names)}: give each one file of coefficients")
    return matched


def _matched(path: Path, rows: Sequence[SignatureRow], asked: str) -> Matched:
    names = sorted({row.module for row in rows})
    named = _asked(rows, asked) if asked else _named_by(path, names)
    if named is None and len(names) > 1:
        problem = f"{path} may belong to {', '.join(names)}: name it with --module"
        raise RejectedError("module", problem)
    module = named or names[0]
    table = read_coefficients_file(path, module)
    own = [row for row in rows if row.module == module]
    found = tuple(_highest([_signature(table, row) for row in own]))
    measured = [_at_its_clock(table, row) for row in own]
    known = (tuple(m for m in measured if m.app_id == each.app_id) for each in found)
    return Matched(table, found, tuple(known), is_named=named is not None)


def _asked(rows: Sequence[SignatureRow], asked: str) -> str:
    found = sorted({row.module for row in rows if asked in (row.module, row.module_idx)})
    if len(found) != 1:
        there = ", ".join(sorted({row.module for row in rows}))
        raise RejectedError("module", f"{asked} names no module of {rows[0].row.path}: {there}")
    return found[0]


def _named_by(path: Path, modules: Iterable[str]) -> str | None:
    """Return the longest of the modules whose name is a word of its own in a file's name."""
    words = [
        module
        for module in modules
        if re.search(rf"(?<![0-9A-Za-z]){re.escape(module)}(?![0-9A-Za-z])", path.stem)
    ]
    return max(words, key=len, default=None)


def _at_its_clock(table: Coefficients, found: SignatureRow) -> Signature:
    nominal_ghz = table.pstates_ghz[-1]
    return replace(found.signature, freq_ghz=nominal_ghz) if found.is_nominal else found.signature


def _signature(table: Coefficients, found: SignatureRow) -> Signature:
    signature = _at_its_clock(table, found)
    signature = replace(signature, freq_ghz=nearest_pstate(signature.freq_ghz, table.pstates_ghz))
    with found.row.named():
        table.index_of(signature.freq_ghz)
        if signature.tpi_scale != table.tpi_scale:
            problem = (
                f"{signature.tpi_scale} is not {table.tpi_scale}, the scale of {table.version}; "
                "a projection would mix the two"
            )
            raise RejectedError("tpi_scale", problem)
    return signature


def _highest(signatures: Iterable[Signature]) -> Iterable[Signature]:
    best: dict[str, Signature] = {}
    for signature in signatures:
        other = best.get(signature.app_id)
        if other is None or signature.freq_ghz > other.freq_ghz:
            best[signature.app_id] = signature
    return best.values()
