from pathlib import Path

import pytest

from lab.emulator.emulator import Emulator
from lab.emulator.scales import PER_INSTRUCTION, read_eamc_scale
from lab.emulator.truth.laws import transactions_per_instruction
from lab.workloads.clusters import clusters
from lab.workloads.table1 import APPS, NODE_MODELS, profile


@pytest.fixture(scope="module")
def published(data_dir: Path) -> Path:
    """The published signatures."""
    return data_dir / "eamc"


def test_the_published_unit_gives_the_published_tpi(published: Path) -> None:
    scale = read_eamc_scale(published)

    model = NODE_MODELS["platinum-8168"]
    tpi = transactions_per_instruction(profile("lu.C", model.name), model)
    assert scale.of("lu.C", model.name, tpi) == pytest.approx(19.5746715134452)
    assert not scale.learned_here


def test_where_coefficients_are_imported_no_kernel_runs(published: Path) -> None:
    scale = read_eamc_scale(published)
    output = Emulator([], clusters(4), 1, tpi_scale=scale).next_round()

    signatures = [p.event.payload for p in output.events if p.topic == "telemetry.signatures"]

    assert len(signatures) == len(APPS) * len(NODE_MODELS)
    assert {getattr(s, "tpi_scale", None) for s in signatures} == {"eamc-2020"}


def test_a_folder_that_lacks_an_application_is_refused(tmp_path: Path) -> None:
    (tmp_path / "apps.csv").write_text("app_id,module,tpi\n1,normal,19.5\n")

    with pytest.raises(ValueError, match=r"apps\.csv has no signature"):
        read_eamc_scale(tmp_path)


def test_the_own_unit_is_transactions_per_instruction() -> None:
    assert PER_INSTRUCTION.of("lu.C", "platinum-8168", 0.005) == 0.005
