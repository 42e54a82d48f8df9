"""Reports of EAR about the emulated nodes, from before the first job.

Some applications run a few times at the nominal clock, on several nodes, as `eacct` lists them. The
demo imports such a folder by `--reports`: `python -m lab.emulator.ear_reports lab/demo/reports`
writes the one that is there.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from lab.emulator.profiling import observe
from lab.emulator.truth.laws import TRANSACTION_BYTES
from lab.emulator.truth.noise import Noise
from lab.emulator.truth.runs import EmulatedTruth
from lab.workloads.table1 import NODE_MODELS
from shared.process.folders import write_csv

COLUMNS: Final = (
    *("NODE_ID", "JOB_ID", "STEP_ID", "USER_ID", "GROUP_ID", "APP_ID", "USER_ACC", "ENERGY_TAG"),
    *("POLICY", "POLICY_TH", "AVG.CPUFREQ", "AVG.IMCFREQ", "DEF.FREQ", "TIME", "CPI", "TPI", "GBS"),
    *("IO_MBS", "P.MPI", "DC-NODE-POWER", "DRAM-POWER", "PCK-POWER", "CYCLES", "INSTRUCTIONS"),
)
APPLICATIONS: Final = ("bt-mz.C", "DGEMM", "STREAM")
_RUNS: Final = 3
_NODES: Final = 2
_FIRST_JOB: Final = 1001
# A clock that was asked for is kept but for so much.
_KEPT: Final = 0.996


def rows(node_model: str, seed: int) -> Iterator[tuple[object, ...]]:
    """Yield the rows of a node model's report."""
    model, noise = NODE_MODELS[node_model], Noise(seed)
    truth = EmulatedTruth(noise)
    for number, app_id in enumerate(APPLICATIONS):
        mean = truth.application(app_id, model, model.nominal_ghz)
        for run in range(_RUNS):
            job_id, khz = _FIRST_JOB + _RUNS * number + run, round(model.nominal_ghz * 1e6)
            for node in range(1, _NODES + 1):
                seen = observe(mean, noise, "reported", app_id, node_model, f"{run}", f"{node}")
                tpi = seen.tpi * TRANSACTION_BYTES
                yield (
                    *(f"n{node:02d}", job_id, 0, "ada", "users", app_id, "physics", ""),
                    *("monitoring", 0, round(khz * _KEPT), 2_400_000, khz),
                    *(f"{seen.time_s:.3f}", f"{seen.cpi:.4f}", f"{tpi:.6f}"),
                    *(f"{seen.mem_gbps:.3f}", 0, 0, f"{seen.power_w:.2f}", 0, 0, 0, 0),
                )


def write(folder: Path, seed: int) -> None:
    """Write the report of each node model."""
    for node_model in NODE_MODELS:
        write_csv(folder / f"{node_model}.csv", COLUMNS, rows(node_model, seed))


def main() -> None:
    """Write a folder of reports."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    write(given.folder, given.seed)


if __name__ == "__main__":
    main()
