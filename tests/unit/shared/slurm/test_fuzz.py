"""Mutated records between honest ones; `make fuzz ADAPTER=slurm` does so for longer."""

from collections.abc import Callable

import pytest

from tests.attacks.slurm import Course, fuzz_jobcomp, fuzz_sinfo, fuzz_squeue


@pytest.mark.parametrize("fuzz", [fuzz_jobcomp, fuzz_squeue, fuzz_sinfo])
def test_nothing_ends_and_no_honest_record_is_lost(fuzz: Callable[[int, int], Course]) -> None:
    for seed in (1, 2):
        course = fuzz(1_000, seed)
        assert course.honest > 300
