"""What a site copies beside its Slurm is what the process takes."""

import configparser
from typing import Final

import pytest

from services.slurm.settings import SlurmSettings, shares_of
from tests.support.snippets import REPOSITORY

_FILES: Final = REPOSITORY / "deploy" / "slurm"


def test_the_unit_runs_the_process_with_the_settings_of_its_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(_FILES / "coplace-slurm.service")
    service = unit["Service"]
    assert service["ExecStart"].split()[1:] == ["-m", "services.slurm"]
    assert service["Restart"] == "always"
    lines = (_FILES / "slurm.env").read_text().splitlines()
    for line in lines[1:]:
        monkeypatch.setenv(*line.split("=", 1))
    # It is not there before it is copied.
    monkeypatch.setenv("COPLACE_SLURM_CLUSTERS_FILE", str(_FILES / "clusters.yaml"))
    own = SlurmSettings()
    assert (own.site, own.watch_address) == ("north", "127.0.0.1:50054")
    assert str(own.cursor_file.parent) == f"/var/lib/{service['StateDirectory']}"
    assert [share.cluster for share in shares_of(own.clusters_file)] == ["alpha"]
