"""In which unit the emulated counters report memory transactions per instruction (TPI)."""

import csv
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from services.simulation.truth.laws import transactions_per_instruction
from services.simulation.workload.table1 import APPS, NODE_MODELS
from shared.domain import eamc_source


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
        """`tpi`, in transactions per instruction, in this unit."""
        return tpi * self.units.get((app_id, node_model), 1.0)


PER_INSTRUCTION: Final = TpiScale("per-instruction", learned_here=True)


def read_eamc_scale(folder: Path) -> TpiScale:
    """The unit of published coefficients, from the signatures in their `apps.csv`.

    Raises OSError when the file cannot be read and ValueError when it lacks an application.
    """
    units = {}
    with (folder / "apps.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            app_id = tuple(APPS)[int(row["app_id"]) - 1]
            model = NODE_MODELS[eamc_source.NODE_MODEL_OF_MODULE[row["module"]]]
            nominal = APPS[app_id].on[model.name]
            units[app_id, model.name] = float(row["tpi"]) / transactions_per_instruction(
                nominal, model
            )
    _require_all(folder, units)
    return TpiScale(eamc_source.TPI_SCALE, learned_here=False, units=units)


def _require_all(folder: Path, units: Mapping[tuple[str, str], float]) -> None:
    missing = [(app, model) for app in APPS for model in NODE_MODELS if (app, model) not in units]
    if missing:
        raise ValueError(f"{folder / 'apps.csv'} has no signature of {missing[0]}: complete it")
