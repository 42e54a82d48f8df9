"""The plays of both disciplines, and going on with them."""

from pathlib import Path

from lab.papers.placement import disciplines
from lab.papers.placement.rows import HALF, MIN_RUNTIME
from lab.papers.placement.trials import AS_AUTHORS, AS_IS, Block
from lab.simulation.metrics import Summary
from lab.simulation.sweep import Setup
from lab.simulation.system import built_in_system
from shared.scheduling.pool import Discipline
from tests.unit.lab.papers.placement.test_tables import summary

SETUP = Setup(built_in_system(["p1", "p2"]), ())


def known(blocks: list[Block]) -> dict[str, Summary]:
    names = [trial.name for block in blocks for trial in block.trials()]
    return {name: summary(number + 1.0) for number, name in enumerate(names)}


def test_every_trial_of_both_disciplines_has_a_name_of_its_own() -> None:
    blocks = disciplines.blocks_of(2)
    assert len(known(blocks)) == sum(len(block.trials()) for block in blocks)


def test_slurms_discipline_is_that_of_the_authors() -> None:
    _, block = disciplines.blocks_of(1)
    (trial, *_) = block.trials()
    assert trial.variation.discipline is Discipline.SLURM
    assert (trial.case.slurm.records, trial.case.slurm.window_s) == (100, 86_400)


def test_what_was_played_is_read_again_and_not_played_again(tmp_path: Path) -> None:
    blocks = [Block((MIN_RUNTIME,), (1, 2), variation) for variation in (AS_IS, AS_AUTHORS)]
    path, found = tmp_path / "claims.jsonl", known(blocks)
    path.write_text("".join(map(disciplines.line_of, found, found.values())), encoding="utf-8")
    kept = disciplines.kept(path)
    assert kept == found
    played: list[int] = []
    easy, slurm = disciplines.play_missing(SETUP, blocks, path, kept, 1, played.append)
    assert not played
    assert easy.of(HALF, MIN_RUNTIME) == [summary(5.0), summary(6.0)]
    assert slurm.of(HALF, MIN_RUNTIME) == [summary(11.0), summary(12.0)]
