"""`coplace kueue release` gives all Workloads back, or says why it cannot."""

from pathlib import Path
from typing import Any

import pytest

from cli.kueue import cli
from services.kueue.adapters.giving_back import WorkloadsReleased
from services.kueue.settings import KueueSettings
from tests.unit.cli.command_line import coplace, said


def test_it_says_what_is_kueues_now(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[KueueSettings] = []

    async def given_back(own: KueueSettings) -> Any:
        asked.append(own)
        return WorkloadsReleased(3, ["batch"])

    monkeypatch.setattr(cli, "_given_back", given_back)
    file = tmp_path / "clusters.yaml"
    file.write_text("clusters: []")
    printed = said("kueue", "release", "--all", "--site", "north", "--clusters", file)
    assert printed.splitlines() == [
        "3 Workloads are Kueue's",
        "ClusterQueue batch does not ask Coplace any more",
    ]
    [own] = asked
    assert own.architecture == "north/kueue"


def test_without_all_nothing_is_given_back() -> None:
    done = coplace("kueue", "release", "--no-all", "--site", "north")
    assert done.exit_code == 2
