"""What holds for every test of `coplace simulate`."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from matplotlib.figure import Figure


def in_threads(workers: int | None, **_context: object) -> ThreadPoolExecutor:
    """Instead of processes, each of which takes a second to begin."""
    return ThreadPoolExecutor(workers)


@pytest.fixture(autouse=True)
def _cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures are blank: each takes matplotlib a third of a second, and nobody looks at it here.
    Cases are not swept in processes, as the tests of `sweep` do."""
    monkeypatch.setattr(Figure, "savefig", lambda _figure, file, **_options: Path(file).touch())
    monkeypatch.setattr("lab.simulation.sweep.ProcessPoolExecutor", in_threads)
