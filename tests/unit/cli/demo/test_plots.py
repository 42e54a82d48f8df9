"""The picture of the cap that falls."""

from dataclasses import fields
from pathlib import Path
from typing import Any

from cli.demo import plots
from cli.demo.history import History


def test_a_run_without_a_cap_of_the_region_has_an_empty_picture(tmp_path: Path) -> None:
    none: dict[str, Any] = {field.name: [] for field in fields(History)}
    nothing = History(**none)
    plots.falling_cap(nothing, tmp_path / "cap.png")
    assert (tmp_path / "cap.png").read_bytes().startswith(b"\x89PNG")
