"""The instances, their caps, and what the authors' simulator got on them."""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Self

from lab.papers.capping.caps import constant_cap
from lab.simulation.capping import CappingMethod, CappingRules, play_capped
from lab.simulation.eurora import figures_of
from lab.workloads.eurora import (
    EuroraJob,
    EuroraMachine,
    expected_waits_s,
    read_jobs,
    read_machine,
    read_queues,
)

# Of the power that is drawn without a cap.
CAPS_PCT: Final = (100, 75, 50, 30)
_RESULTS: Final = "pa_hpc_sim_results.csv"


@dataclass(frozen=True, slots=True)
class Instance:
    """Jobs, how long they expect to wait, their caps in W by percent, and what the authors'
    simulator got, by cap and method: the mean bounded slowdown (60 s) and the sum of waits, s; both
    empty where nothing was published."""

    group: str
    name: str
    jobs: tuple[EuroraJob, ...]
    waits_s: tuple[float, ...]
    caps_w: Mapping[int, float]
    published: Mapping[tuple[int, str], float]
    published_waits_s: Mapping[tuple[int, str], float]

    def under(self, caps_pct: Sequence[int]) -> Self:
        """Return the instance with these of its caps alone."""
        caps_w = {percent: cap_w for percent, cap_w in self.caps_w.items() if percent in caps_pct}
        return replace(self, caps_w=caps_w)


def read_instances(folder: Path, wanted: Sequence[str]) -> tuple[EuroraMachine, list[Instance]]:
    """Read the machine, and the instances of a folder as published that hold any of these in their
    name, all where nothing is wanted. Raises OSError or UnusableError.

    Powers are those by what a job uses, not the predicted ones: so the published results were got,
    on 45 of 115 plays list scheduling by walltime waits as long as published, to the second.
    """
    machine = read_machine(folder / "nodes_64.csv")
    queues, rows = read_queues(folder / "queues.txt"), _published(folder / _RESULTS)
    found = []
    for path in sorted(folder.glob("*/*.log_crypt")):
        if wanted and not any(each in path.name for each in wanted):
            continue
        jobs = read_jobs(path, {})
        waits_s, told = expected_waits_s(jobs, queues), rows.get(path.name, [])
        found.append(
            Instance(
                group=_group(path.name),
                name=path.name.removesuffix(".log_crypt"),
                jobs=jobs,
                waits_s=waits_s,
                caps_w={int(row["cap_pct"]): float(row["cap_w"]) for row in told}
                or own_caps_w(machine, jobs, waits_s),
                published=_by_play(told, "bsld"),
                published_waits_s=_by_play(told, "queue_time_s"),
            )
        )
    return machine, found


def _group(name: str) -> str:
    """Instances that are alike: `rndm_50_300_7` is one of 50 jobs that come within 300 s."""
    kind, jobs, window, *_ = name.split("_")
    return f"historical, {jobs} jobs" if kind == "hist" else f"{jobs} jobs in {window} s"


def _by_play(rows: Sequence[Mapping[str, str]], column: str) -> dict[tuple[int, str], float]:
    return {(int(row["cap_pct"]), row["method"]): float(row[column]) for row in rows}


def _published(path: Path) -> dict[str, list[dict[str, str]]]:
    rows: dict[str, list[dict[str, str]]] = {}
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            rows.setdefault(row["instance"], []).append(row)
    return rows


def own_caps_w(
    machine: EuroraMachine, jobs: Sequence[EuroraJob], waits_s: Sequence[float]
) -> dict[int, float]:
    """Return parts of the highest power that list scheduling draws without a cap."""
    without_w = float(sum(job.power_w for job in jobs))
    rules = CappingRules(CappingMethod.LS, constant_cap(without_w), waits_s, [0.0] * len(jobs))
    highest_w = figures_of(play_capped(machine, jobs, rules)).max_power_w
    return {percent: highest_w * percent // 100 for percent in CAPS_PCT}
