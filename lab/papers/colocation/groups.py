"""Groups of more than two, and cores given out by them, on the declared substitute."""

from pathlib import Path
from typing import Final

from lab.evaluate import deadlines, groups
from lab.evaluate.group_files import GroupFiles
from lab.papers.colocation import contention
from lab.papers.placement.markdown import table

# The paper's nodes, tasks and rates of arrivals. What aware schedulers learn was chosen on seed 0.
INTERARRIVALS_S: Final = (0.1, 0.25)
SETTING: Final = deadlines.DeadlineSetting(
    nodes=500, cores=contention.CORES, tasks=8_000, seed=2016
)
MIXED: Final = ", from mixed groups too"


def error_tables(files: GroupFiles) -> dict[str, str]:
    """Return what each feature set and model is off by, and what a class is worth."""
    of_classes = groups.unmeasured_rows(list(groups.unmeasured(files)))
    return {
        "group errors": table(groups.SCORE_HEADER, groups.score_rows(groups.scores(files))),
        "group classes": table(groups.UNMEASURED_HEADER, of_classes),
    }


def deadline_table(files: GroupFiles, setting: deadlines.DeadlineSetting, picture: Path) -> str:
    """Return all heuristics; once more those that learn, with groups whose neighbours differ."""
    cores, seed = setting.cores, setting.seed
    true = GroupFiles(files.alone, list(contention.all_groups(cores, seed + 1)), [])
    believed = dict(deadlines.beliefs(files, true, cores, seed))
    mixed = GroupFiles(files.alone, [*files.runs, *contention.mixed_groups(seed + 2)], [])
    again = deadlines.beliefs(mixed, true, cores, seed)
    believed |= {name + MIXED: again[name] for name in (deadlines.AWARE, deadlines.MARGIN)}
    found = deadlines.played(believed, setting, INTERARRIVALS_S)
    deadlines.write_plot(picture, found, setting)
    return table(deadlines.HEADER, deadlines.rows(found, setting))


def run(folder: Path) -> dict[str, str]:
    """Return the tables by name, and the picture."""
    files = contention.group_files(contention.CORES)
    picture = folder / "colocation-deadlines.png"
    return {**error_tables(files), "deadlines": deadline_table(files, SETTING, picture)}
