"""The same digits on every processor: runs as of other machines give the same bytes."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import pytest

from lab.demo.report import FILES
from tests.e2e.figures import FIGURES_FILE
from tests.support.snippets import REPOSITORY

HERE: Final = "here"
_HAS_AVX512: Final = " avx512bw " in Path("/proc/cpuinfo").read_text(encoding="utf-8")
# Kernels that a processor has no instructions for end a process with SIGILL.
_OF_AVX512: Final = {"skylake-x": {"OPENBLAS_CORETYPE": "SkylakeX"}} if _HAS_AVX512 else {}
# What each of them has of its own. The last is a processor without AVX2 and FMA, to OpenBLAS, numpy
# and the C library, in another place.
MACHINES: Final[Mapping[str, Mapping[str, str]]] = {
    HERE: {},
    "haswell": {"OPENBLAS_CORETYPE": "Haswell", "PYTHONHASHSEED": "1"},
    "zen": {"OPENBLAS_CORETYPE": "Zen", "OMP_NUM_THREADS": "1"},
    **_OF_AVX512,
    "prescott": {
        "OPENBLAS_CORETYPE": "Prescott",
        "NPY_DISABLE_CPU_FEATURES": "X86_V4 X86_V3",
        "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX512F,-AVX2,-AVX,-FMA,-FMA4",
        "PYTHONHASHSEED": "4242",
        "TZ": "Asia/Kathmandu",
        "LC_ALL": "POSIX",
    },
}
OTHERS: Final = [name for name in MACHINES if name != HERE]
# As OpenBLAS calls the kernels that it takes.
KERNELS: Final = {
    "haswell": {"Haswell"},
    "zen": {"Zen", "Haswell"},
    "skylake-x": {"SkylakeX"},
    "prescott": {"Prescott", "Katmai"},
}


def kernels_of_a_run(machine: str, folder: Path) -> set[str]:
    """Write all figures into a folder, as on that machine; the kernels that were loaded."""
    chosen = {name for each in MACHINES.values() for name in each}
    own = {name: value for name, value in os.environ.items() if name not in chosen}
    run = subprocess.run(
        [sys.executable, "-m", "tests.e2e.figures", str(folder)],
        env={**own, **MACHINES[machine]},
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return set(json.loads(run.stdout))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of all runs, a folder a machine in it."""
    return tmp_path_factory.mktemp("machines")


@pytest.fixture(scope="module")
def kernels(folder: Path) -> Mapping[str, set[str]]:
    """What each machine's run loaded, once all of them are over."""
    with ThreadPoolExecutor(max_workers=2) as pool:
        found = pool.map(lambda machine: kernels_of_a_run(machine, folder / machine), MACHINES)
        return dict(zip(MACHINES, found, strict=True))


@pytest.mark.parametrize("machine", OTHERS)
def test_a_run_has_the_kernels_of_the_other_machine(
    machine: str, kernels: Mapping[str, set[str]]
) -> None:
    assert len(kernels[machine]) == 1
    assert kernels[machine] <= KERNELS[machine]


@pytest.mark.parametrize("name", [*FILES, FIGURES_FILE])
@pytest.mark.parametrize("machine", OTHERS)
def test_every_file_is_the_same_on_another_machine(
    machine: str, name: str, folder: Path, kernels: Mapping[str, set[str]]
) -> None:
    assert (folder / machine / name).read_bytes() == (folder / HERE / name).read_bytes()
