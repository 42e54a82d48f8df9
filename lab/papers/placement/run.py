"""What the benchmark plays and writes."""

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from cli.progress import progress_of
from coplace_client.errors import UnusableError
from coplace_client.files import write_whole
from lab.papers.placement import disciplines, figure, tables
from lab.papers.placement.demotions import WEIGHINGS
from lab.papers.placement.logs import (
    LOGS,
    RUNS,
    SIZES,
    LogRun,
    ScaleRun,
    measured,
    scaled,
)
from lab.papers.placement.markdown import write_tables
from lab.papers.placement.measures import MEASURES, p1_response_h, p2_response_h
from lab.papers.placement.rows import ROWS, Grid, Row
from lab.papers.placement.sensitivity import PLAYED, VARIATIONS
from lab.papers.placement.trials import AS_IS, Block, grids
from lab.simulate.clusters import setup_of
from lab.simulation.epm import Epm
from lab.simulation.policy import SimulatedPolicy
from lab.simulation.sweep import Setup
from lab.simulation.system import built_in_system
from shared.domain.eamc_policy import Reading
from shared.eamc.frequency import Weighing

# The sensitivity table shows no intervals: so many seeds distinguish its rows.
SENSITIVITY_SEEDS: Final = 5
PICTURE: Final = "placement-gains.png"


class Part(StrEnum):
    """The parts of the benchmark."""

    CLAIMS = "claims"
    POLICIES = "policies"
    LOGS = "logs"


@dataclass(frozen=True, slots=True)
class Options:
    """The options of the command: the folder of published data, how many seeds of the comparison
    and of the paper's figures, where to write, what to play, whether to go on."""

    data: Path
    seeds: int
    claim_seeds: int
    out: Path
    into: Path | None
    workers: int | None
    parts: tuple[Part, ...] = tuple(Part)
    resumes: bool = False


@dataclass(frozen=True, slots=True)
class Played:
    """All simulations of clusters: the comparison, other readings, variations by name."""

    grid: Grid
    readings: Mapping[Weighing, Grid]
    variations: Mapping[str, Grid]


def run(options: Options) -> dict[str, str]:
    """Play, measure and write; the tables by name.

    Raises OSError or UnusableError for data that cannot be read and a document without marks.
    """
    parts = {Part.CLAIMS: _claims, Part.POLICIES: _policies, Part.LOGS: _logs}
    if Part.LOGS in options.parts:
        _require_logs(options.data / "swf")
    found: dict[str, str] = {}
    for part, tables_of in parts.items():
        if part in options.parts:
            found |= tables_of(options)
    write_tables(found, options.out, options.into)
    return found


def _setup(options: Options) -> Setup:
    return setup_of(built_in_system(["p1", "p2"]), options.data / "eamc")


def _claims(options: Options) -> dict[str, str]:
    blocks, path = disciplines.blocks_of(options.claim_seeds), options.out / "claims.jsonl"
    known = disciplines.kept(path) if options.resumes else {}
    with progress_of(sum(len(block.trials()) for block in blocks), "plays of the claims") as done:
        every = disciplines.play_missing(
            _setup(options), blocks, path, known, options.workers, done
        )
    _write_rows(options.out / "claims.csv", [*_case_rows(blocks, every)])
    return {"claims": tables.claims(*every)}


def _policies(options: Options) -> dict[str, str]:
    setup = _setup(options)
    epm = Epm.from_models(setup.models)
    blocks = _blocks(options.seeds)
    with progress_of(sum(len(block.trials()) for block in blocks), "simulations") as done:
        played = _played(blocks, grids(setup, blocks, options.workers, done))
    every = [played.grid, *played.readings.values(), *played.variations.values()]
    _write_rows(options.out / "cases.csv", [*_case_rows(blocks, every)])
    figure.draw(played.grid, options.out / PICTURE)
    if options.into is not None:
        figure.draw(played.grid, options.into.parent / PICTURE)
    return {
        "gains": tables.gains(played.grid),
        "means": tables.means(played.grid),
        "beyond": tables.beyond(played.grid),
        "demoted": tables.demoted(epm),
        "readings": tables.changed(epm, played.grid, played.readings),
        "sensitivity": tables.sensitivity({AS_IS.name: played.grid} | dict(played.variations)),
    }


def _require_logs(folder: Path) -> None:
    if missing := [name for name in LOGS.values() if not (folder / name).is_file()]:
        raise UnusableError(f"{folder} has no {', '.join(missing)}: set COPLACE_DATA")


def _logs(options: Options) -> dict[str, str]:
    runs, sizes = _timed(options.data / "swf")
    _write_rows(options.out / "logs.csv", [asdict(each) for each in runs])
    _write_rows(options.out / "scale.csv", [asdict(each) for each in sizes])
    return {
        "logs": tables.logs(runs),
        "log speed": tables.log_speed(runs),
        "scale": tables.scale(sizes),
    }


def _blocks(seeds: int) -> list[Block]:
    every, few = tuple(range(1, seeds + 1)), tuple(range(1, min(seeds, SENSITIVITY_SEEDS) + 1))
    return [
        Block(ROWS, every),
        *(
            Block((Row(SimulatedPolicy.PRIORITY_INC_V, w.t_weight),), every, reading=w.reading)
            for w in _other_readings()
        ),
        *(Block(PLAYED, few, variation) for variation in VARIATIONS),
    ]


def _other_readings() -> list[Weighing]:
    return [w for w in WEIGHINGS if w.reading is not Reading.DIMENSIONLESS]


def _played(blocks: Sequence[Block], found: Sequence[Grid]) -> Played:
    others = _other_readings()
    names = [block.variation.name for block in blocks[1 + len(others) :]]
    return Played(
        grid=found[0],
        readings=dict(zip(others, found[1:], strict=False)),
        variations=dict(zip(names, found[1 + len(others) :], strict=True)),
    )


def _timed(folder: Path) -> tuple[list[LogRun], list[ScaleRun]]:
    """One after the other: what runs beside would be measured too."""
    runs: list[LogRun] = []
    sizes: list[ScaleRun] = []
    with progress_of(len(RUNS) + len(SIZES), "measurements") as done:
        for log, policy in RUNS:
            runs.append(measured(folder, log, policy))
            done(len(runs))
        for jobs in SIZES:
            sizes.append(scaled(jobs))
            done(len(runs) + len(sizes))
    return runs, sizes


def _case_rows(blocks: Sequence[Block], every: Sequence[Grid]) -> Iterator[dict[str, object]]:
    more = {"response on p1, h": p1_response_h, "response on p2, h": p2_response_h}
    measures = {name: measure for name, (measure, _) in MEASURES.items()} | more
    for block, grid in zip(blocks, every, strict=True):
        for (workload, row), summaries in grid.summaries.items():
            for seed, summary in zip(grid.seeds, summaries, strict=True):
                yield {
                    "variation": block.variation.name,
                    "reading": block.reading,
                    "workload": workload,
                    "policy": row.policy,
                    "t_weight": row.t_weight,
                    "seed": seed,
                } | {name: measure(summary) for name, measure in measures.items()}


def _write_rows(path: Path, rows: Sequence[Mapping[str, object]]) -> None:
    with write_whole(path) as fresh, fresh.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
