"""The scenario files that the documentation prints, as they are pasted."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli.main import app
from shared.catalogue.event_json import write_events
from tests.support.snippets import REPOSITORY, programs, write_programs
from tests.unit.cli.simulate.test_cli import JOBS, LINE
from tests.unit.services.energy.files import apps, pairs, write
from tests.unit.shared.placement import region
from tests.unit.shared.simulation.recorded.records import recorded

DOCUMENT = REPOSITORY / "docs" / "simulation.md"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What the examples name, in the folder to be in: a log, models of p1 and p2, a record."""
    monkeypatch.chdir(tmp_path)
    names = ("job", "submit", "run", "procs", "limit")
    lines = [LINE.format(**dict(zip(names, job, strict=True))) for job in JOBS]
    (tmp_path / "KTH-SP2.swf.gz").write_text("\n".join(lines))
    models = tmp_path / "eamc"
    models.mkdir()
    signatures: list[dict[str, object]] = []
    for number, module in enumerate(("normal", "normal2")):
        write(models / f"{module}_coefficients.csv", pairs({"A": 0.5, "C": 10.0}))
        for app_id, time_s in (("a", 10.0 + number), ("b", 12.0 - 2 * number)):
            signatures.append({"app_id": app_id, "module": module, "time_s": time_s})
    write(models / "apps.csv", apps(*signatures))
    (tmp_path / "out").mkdir()
    inputs, _ = recorded([region.submitted("j")], {"j": 60.0})
    events = [event for each in inputs.rounds for event in (*each.events, each.barrier)]
    write_events(tmp_path / "out" / "placement.inputs.jsonl", events)
    write_programs(DOCUMENT, tmp_path, "yaml")
    return tmp_path


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("name", "smaller", "told"),
    [
        ("kth.yaml", (), "sjf"),
        (
            "sweep.yaml",
            ("--set", "seeds=1,2", "--set", "look_ahead.head=20", "--set", "mix=uniform"),
            "look-ahead",
        ),
        ("what-if.yaml", (), "min-energy w=1, no caps, cluster:p1=180000"),
    ],
)
def test_an_example_runs_as_it_is_pasted(name: str, smaller: tuple[str, ...], told: str) -> None:
    few = ("--jobs", "20") if smaller else ()
    done = CliRunner().invoke(app, ["simulate", name, *smaller, *few])
    assert done.exit_code == 0, done.output
    assert told in done.stdout


def test_every_example_is_tried() -> None:
    assert programs(DOCUMENT, "yaml").keys() == {"kth.yaml", "sweep.yaml", "what-if.yaml"}
