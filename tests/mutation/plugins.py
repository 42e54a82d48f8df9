"""Options of pytest beyond the tests: which of them, how often they try, and what they call."""

import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Final

import pytest
from hypothesis import HealthCheck, Phase, settings

from tests.mutation.calls import SCHEDULING, Tried

# A property that is to fail mostly does so at once.
EXAMPLES: Final = 25


class FewExamples:
    """Properties are tried less often, and the failure is not made smaller. A busy machine is none
    of a mutant's doing."""

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Hypothesis offers no way to say so for tests that have settings of their own."""
        for item in items:
            test = getattr(item, "obj", None)
            given = getattr(test, "_hypothesis_internal_use_settings", None)
            if isinstance(given, settings):
                setattr(test, "_hypothesis_internal_use_settings", _fewer(given))  # noqa: B010


def _fewer(given: settings) -> settings:
    return settings(
        given,
        max_examples=min(given.max_examples, EXAMPLES),
        phases=(Phase.explicit, Phase.generate),
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
    )


class Chosen:
    """These tests alone, in this order."""

    def __init__(self, tests: Sequence[str]) -> None:
        self._turns = {test: turn for turn, test in enumerate(tests)}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Of those that were collected."""
        chosen = [item for item in items if item.nodeid in self._turns]
        items[:] = sorted(chosen, key=lambda item: self._turns[item.nodeid])


class Recorder:
    """Writes down what each test calls of the schedulers, and how long it takes."""

    def __init__(self, root: Path) -> None:
        self.tests: list[Tried] = []
        self._root = root
        self._files: dict[str, str | None] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Each function call, while a test runs: the lines in between are not looked at."""
        called: set[tuple[str, int]] = set()

        def see(frame: FrameType, _event: str, _arg: object) -> None:
            called.add((frame.f_code.co_filename, frame.f_code.co_firstlineno))

        before_s = time.process_time()
        sys.settrace(see)
        try:
            return (yield)
        finally:
            sys.settrace(None)
            calls = frozenset((file, line) for path, line in called if (file := self._file(path)))
            self.tests.append(Tried(item.nodeid, time.process_time() - before_s, calls))

    def _file(self, path: str) -> str | None:
        """As a mutant names it; None for one that is no scheduler."""
        if path not in self._files:
            inside = Path(path).is_relative_to(self._root / SCHEDULING)
            self._files[path] = Path(path).relative_to(self._root).as_posix() if inside else None
        return self._files[path]
