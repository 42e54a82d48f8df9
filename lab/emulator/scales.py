"""In which unit the emulated counters report memory transactions per instruction (TPI)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from coplace_client.errors import RejectedError, UnusableError
from lab.emulator.truth.laws import transactions_per_instruction
from lab.workloads.table1 import APPS, NODE_MODELS
from shared.domain import eamc_source
from shared.process.rows import FileRow, read_rows

# The published data numbers them from 1.
_APPS: Final = {str(number): app_id for number, app_id in enumerate(APPS, start=1)}


@dataclass(frozen=True, slots=True)
class TpiScale:
    """A unit of TPI: how many of it one transaction per instruction is, by (app_id, node model).

    `learned_here` says that coefficients of this unit come from kernels that are run here; those of
    another source come with it, and no kernel can be expressed in its unit.
    """

    name: str
    learned_here: bool
    units: Mapping[tuple[str, str], float] = field(default_factory=dict)

    def of(self, app_id: str, node_model: str, tpi: float) -> float:
        """Return `tpi`, in transactions per instruction, in this unit."""
        return tpi * self.units.get((app_id, node_model), 1.0)


PER_INSTRUCTION: Final = TpiScale("per-instruction", learned_here=True)


def read_eamc_scale(folder: Path) -> TpiScale:
    """Read the unit of published coefficients, from the signatures in their `apps.csv`.

    Raises OSError when the file cannot be read and UnusableError when it lacks an application.
    """
    units = {}
    for row in read_rows(folder / "apps.csv", ("app_id", "module", "tpi")):
        app_id = _one_of(row, "app_id", _APPS)
        model = NODE_MODELS[_one_of(row, "module", eamc_source.NODE_MODEL_OF_MODULE)]
        nominal = APPS[app_id].on[model.name]
        tpi = row.number_of("tpi")
        units[app_id, model.name] = tpi / transactions_per_instruction(nominal, model)
    _require_all(folder, units)
    return TpiScale(eamc_source.TPI_SCALE, learned_here=False, units=units)


def _one_of(row: FileRow, field: str, known: Mapping[str, str]) -> str:
    """The meaning of the published data's name of an application or a module."""
    name = row.text(field)
    if name not in known:
        raise RejectedError(field, f"must be one of {', '.join(known)}, got {name} in {row.where}")
    return known[name]


def _require_all(folder: Path, units: Mapping[tuple[str, str], float]) -> None:
    missing = [(app, model) for app in APPS for model in NODE_MODELS if (app, model) not in units]
    if missing:
        raise UnusableError(f"{folder / 'apps.csv'} has no signature of {missing[0]}: complete it")
