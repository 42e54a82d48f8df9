"""What a site copies beside its Slurm is what the process takes."""

import configparser
from pathlib import Path
from typing import Final

import pytest

from services.slurm.adapters import giving_back
from services.slurm.settings import SlurmSettings, shares_of
from tests.support.snippets import REPOSITORY

_FILES: Final = REPOSITORY / "deploy" / "slurm"


def unit(name: str) -> configparser.ConfigParser:
    found = configparser.ConfigParser(interpolation=None)
    found.optionxform = str  # type: ignore[assignment,method-assign]
    found.read(_FILES / name)
    return found


def test_the_unit_runs_the_process_with_the_settings_of_its_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    service = unit("coplace-slurm.service")["Service"]
    assert service["ExecStart"].split()[1:] == ["-m", "services.slurm"]
    assert service["Restart"] == "always"
    lines = (_FILES / "slurm.env").read_text().splitlines()
    for line in lines:
        if line.startswith("#"):
            continue
        monkeypatch.setenv(*line.split("=", 1))
    # It is not there before it is copied.
    monkeypatch.setenv("COPLACE_SLURM_CLUSTERS_FILE", str(_FILES / "clusters.yaml"))
    own = SlurmSettings()
    assert (own.site, own.watch_address) == ("north", "127.0.0.1:50054")
    assert str(own.cursor_file.parent) == f"/var/lib/{service['StateDirectory']}"
    assert [share.cluster for share in shares_of(own.clusters_file)] == ["alpha"]


def test_the_timer_runs_the_copied_program_on_the_file_that_the_process_writes() -> None:
    service = unit("coplace-slurm-fallback.service")["Service"]
    process = unit("coplace-slurm.service")["Service"]
    python, *_, program = service["ExecStart"].split()
    assert python == "/usr/bin/python3"
    how_to = (REPOSITORY / "docs" / "how-to" / "slurm.md").read_text()
    assert (
        f"cp {Path(giving_back.__file__).relative_to(REPOSITORY)} {Path(program).parent}/" in how_to
    )
    for name in ("User", "EnvironmentFile", "StateDirectory"):
        assert service[name] == process[name]
    timer = unit("coplace-slurm-fallback.timer")["Timer"]
    assert (timer["OnBootSec"], timer["OnUnitActiveSec"]) == ("5min", "15s")
    default = SlurmSettings.model_fields["cursor_file"].default.with_name("heartbeat")
    lines = (_FILES / "slurm.env").read_text().splitlines()
    assert f"COPLACE_SLURM_HEARTBEAT_FILE={default}" in lines
    assert "COPLACE_FALLBACK_AFTER_S=300" in lines
