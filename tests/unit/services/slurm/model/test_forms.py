"""Forms of Slurm's JSON."""

from typing import Any

import pytest

from services.slurm.model.forms import unknown_form, unreadable_jobs


def written(plugin: dict[str, str], release: str = "26.05.5") -> dict[str, Any]:
    return {"meta": {"plugin": plugin, "slurm": {"release": release}}, "jobs": []}


@pytest.mark.parametrize(
    "plugin",
    [
        {"type": "openapi/v0.0.38"},
        *({"type": "", "data_parser": f"data_parser/v0.0.{number}"} for number in range(39, 46)),
        {"type": "openapi/slurmctld"},
        {},
    ],
)
def test_the_forms_of_22_05_to_26_05_are_known(plugin: dict[str, str]) -> None:
    assert unknown_form(written(plugin)) == ""


@pytest.mark.parametrize("form", ["v0.0.37", "v0.0.46", "v0.1.0"])
def test_another_form_is_named_with_its_release_and_what_to_do(form: str) -> None:
    words = unknown_form(written({"data_parser": f"data_parser/{form}"}, "27.05.1"))
    assert words.startswith(
        f"Slurm 27.05.1 writes data_parser/{form}, and Coplace knows v0.0.38 to "
    )
    assert "install a release of Coplace" in words
    assert "\n" not in words


def test_a_form_in_which_no_job_can_be_read_is_named_too() -> None:
    assert "data_parser/v0.0.45, in which no job" in unreadable_jobs(
        written({"data_parser": "data_parser/v0.0.45"})
    )
    assert unreadable_jobs({}).startswith(
        "Slurm of an unknown release writes JSON of no known form"
    )
