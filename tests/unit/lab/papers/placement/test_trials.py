"""Blocks of simulations and the grids that come of them."""

from dataclasses import replace

import numpy as np

from lab.papers.placement.rows import BASE, HALF, MIN_RUNTIME, THIRD, UNIFORM
from lab.papers.placement.trials import AS_IS, Block, Variation
from lab.simulation.jobs import CIRNE_UNIFORM, submit_jobs
from lab.simulation.system import built_in_system


def test_a_grid_gives_each_trial_to_its_row_and_workload() -> None:
    block = Block((BASE, MIN_RUNTIME), (4, 7))
    numbers = list(range(len(block.trials())))
    grid = block.grid(numbers)  # type: ignore[arg-type]
    for workload in (UNIFORM, THIRD, HALF):
        for row in (BASE, MIN_RUNTIME):
            cases = [block.trials()[n].case for n in grid.of(workload, row)]  # type: ignore[call-overload]
            assert [(case.policy, case.seed) for case in cases] == [
                (row.policy, 4),
                (row.policy, 7),
            ]


def test_a_row_can_be_replaced_by_another_that_was_played() -> None:
    grid = Block((BASE, MIN_RUNTIME), (1,)).grid(list(range(6)))  # type: ignore[arg-type]
    replaced = grid.replaced(MIN_RUNTIME, BASE)
    assert replaced.of(THIRD, MIN_RUNTIME) == replaced.of(THIRD, BASE) == grid.of(THIRD, BASE)


def test_the_variation_that_varies_nothing_is_the_simulators_workload() -> None:
    ours = AS_IS.jobs(3).jobs
    theirs = submit_jobs(CIRNE_UNIFORM, 3, built_in_system(["p1", "p2"])).jobs
    for name in ("submit_s", "nodes", "run_s", "requested_s"):
        assert np.array_equal(getattr(ours, name), getattr(theirs, name))


def test_a_variation_changes_what_it_says_and_nothing_else() -> None:
    plain, exact = AS_IS.jobs(1).jobs, Variation("exact", exact_requests=True).jobs(1).jobs
    assert np.array_equal(exact.requested_s, plain.run_s)
    assert np.array_equal(exact.run_s, plain.run_s)
    fast = replace(AS_IS, speed=2.0).jobs(1).jobs
    assert np.allclose(fast.submit_s * 2, plain.submit_s)
    assert np.array_equal(fast.nodes, plain.nodes)
