"""The tables of `make bench-colocation`, on a machine that was made up."""

import numpy as np
import pytest

from lab.evaluate.pair_files import PairFiles
from lab.papers.colocation import queues, run
from tests.unit.shared.colocation.machines import made


@pytest.fixture(scope="module")
def drawn() -> list[queues.Queue]:
    profiles, degradation = made(5, machines=1, apps=14)
    files = PairFiles(profiles, degradation, np.full(degradation.shape, np.nan), [])
    return run.draw(files, 2, jobs=21)


def test_a_queue_holds_jobs_of_its_applications_and_no_job_beside_its_like(
    drawn: list[queues.Queue],
) -> None:
    for queue in drawn:
        assert len(queue.alone_s) == 21
        assert len(np.unique(queue.alone_s)) <= queues.APPS
        same = queue.alone_s[:, np.newaxis] == queue.alone_s
        for degradation in (queue.measured, queue.predicted):
            assert (np.isnan(degradation) == same).all()


def test_tables_name_each_policy_and_perfect_blossom_gains_all_it_gains(
    drawn: list[queues.Queue],
) -> None:
    found = [queues.makespans(queue) for queue in drawn]
    lines = run.of_queues(found).splitlines()
    assert [line.split(" | ")[0].strip("| ") for line in lines[2:]] == list(found[0])
    assert lines[-1].endswith("| 100.0 |")
    assert run.of_levels(drawn).count("\n") == len(found[0]) + 1


@pytest.mark.parametrize(("level", "least", "most"), [("low", 0.0, 0.75), ("medium", 0.75, 1.0)])
def test_neighbours_in_the_order_of_a_level_have_its_share(
    drawn: list[queues.Queue], level: str, least: float, most: float
) -> None:
    for seed, queue in enumerate(drawn):
        found = queues.at_level(queue, level, seed)
        for job in range(0, len(found.alone_s), 2):
            together_s = max(
                found.alone_s[a] * (1 + max(found.measured[a, b], 0.0))
                for a, b in ((job, job + 1), (job + 1, job))
            )
            assert least <= together_s / found.alone_s[job : job + 2].sum() < most
