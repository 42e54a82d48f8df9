"""The scenario files that the documentation prints, as they are pasted."""

from pathlib import Path

import pytest

from lab.simulate import pool
from tests.support.snippets import REPOSITORY, programs, write_programs
from tests.unit.cli.command_line import said
from tests.unit.lab.simulate.conftest import in_threads
from tests.unit.lab.simulate.files import write_log, write_models, write_record
from tests.unit.shared.placement import region
from tests.unit.shared.replay.records import recorded

DOCUMENT = REPOSITORY / "docs" / "simulation.md"
EXAMPLES = {
    "kth.yaml": ("", "sjf"),
    "sweep.yaml": (
        "--set seeds=1,2 --set look_ahead.head=20 --set mix=uniform --jobs 9",
        "look-ahead",
    ),
    "what-if.yaml": ("", "min-energy w=1, no caps, cluster:p1=180000"),
}


def test_every_example_is_tried() -> None:
    assert programs(DOCUMENT, "yaml").keys() == EXAMPLES.keys()


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_runs_as_it_is_pasted(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a folder of what the examples name: a log, models of p1 and p2, a record."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(pool, "ProcessPoolExecutor", in_threads)
    write_log(tmp_path / "KTH-SP2.swf.gz")
    write_models(tmp_path / "eamc", "normal", "normal2")
    (tmp_path / "out").mkdir()
    write_record(tmp_path / "out", recorded([region.submitted("j")], {"j": 60.0})[0])
    write_programs(DOCUMENT, tmp_path, "yaml")
    smaller, told = EXAMPLES[name]
    assert told in said("simulate", name, *smaller.split())
