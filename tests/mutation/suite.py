"""`python -m tests.mutation.suite`: the tests that are to kill a mutant, in a process of their own
that has so much CPU time. The first folder on its path holds the mutant."""

import argparse
import json
import os
import resource
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Final

import pytest

from tests.mutation.calls import CORE
from tests.mutation.plugins import Chosen, FewExamples, Recorder

ROOT: Final = Path(__file__).parents[2]
UNIT: Final = ["tests/unit/shared/scheduling"]
# As many of the random systems as are played in a few seconds.
SYSTEMS: Final = ["tests/core/test_core.py::test_no_random_system_breaks_a_rule_of_the_core[0]"]
TIME_IS_UP: Final = "CPU time is up"
_MOST_BYTES: Final = 8 << 30  # of addresses: a mutant may grow without end
_PASSED: Final = (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)


def main() -> None:
    """Exits with 0 where all pass."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=int, default=0, help="of CPU; 0 for no limit")
    parser.add_argument("--chosen", type=Path, help="file with the names of the tests to run")
    parser.add_argument("--record", type=Path, help="file into which to write what tests call")
    asked = parser.parse_args()
    if asked.seconds:
        _limit(asked.seconds)
    if asked.record:
        recorder = Recorder(Path.cwd())
        passed = all(_pass(tests, recorder) for tests in (UNIT, SYSTEMS))
        asked.record.write_text(json.dumps([each.as_json() for each in recorder.tests]))
    elif asked.chosen:
        chosen = json.loads(asked.chosen.read_text(encoding="utf-8"))
        passed = all(_pass(files(tests), Chosen(tests)) for tests in stages(chosen) if tests)
    else:
        passed = all(_pass(tests) for tests in (UNIT, SYSTEMS))
    sys.exit(not passed)


def stages(tests: list[str]) -> tuple[list[str], list[str]]:
    """Random systems are looked at only where everything else passes."""
    systems = [test for test in tests if test.startswith(CORE)]
    return [test for test in tests if not test.startswith(CORE)], systems


def files(tests: list[str]) -> list[str]:
    """Where they are."""
    return sorted({test.split("::")[0] for test in tests})


def _pass(tests: list[str], *plugins: object) -> bool:
    """Until the first failure, the same in each run."""
    options = [
        "-x",
        "-q",
        "-p",
        "no:cacheprovider",
        "--hypothesis-seed=1",
        "--tb=line",
        "--disable-warnings",
    ]
    project = [f"--rootdir={ROOT}", f"-c={ROOT / 'pyproject.toml'}", f"-opythonpath={Path.cwd()}"]
    paths = [str(ROOT / test) for test in tests]
    return pytest.main([*options, *project, *paths], [FewExamples(), *plugins]) in _PASSED


def _limit(seconds: int) -> None:
    """The reason goes past what pytest captures."""
    out = os.dup(1)

    def end(_signal: int, _frame: FrameType | None) -> None:
        os.write(out, TIME_IS_UP.encode())
        os._exit(1)

    signal.signal(signal.SIGXCPU, end)
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 2))
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_BYTES, _MOST_BYTES))


if __name__ == "__main__":
    main()
