"""Forms of Slurm's JSON."""

from typing import Any

import pytest

from services.slurm.model.facts import facts_of
from services.slurm.model.fields import unknown_fields
from services.slurm.model.forms import unknown_form, unreadable_jobs
from services.slurm.model.jobs import SlurmJob
from tests.unit.services.slurm.fields import JOB, RUNS
from tests.unit.services.slurm.region import TERMS


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


# As the documented forms of 25.05 to 26.05 have them.
STRUCTS = frozenset(
    {
        *("array_job_id", "array_task_id", "cpus", "end_time", "het_job_id", "het_job_offset"),
        *("node_count", "start_time", "submit_time", "time_limit", "max_nodes", "tasks"),
        *("memory_per_cpu", "threads_per_core", "priority"),
    }
)


def documented(fields: dict[str, Any]) -> dict[str, Any]:
    """A job in that form, from that of 22.05."""
    found = dict(fields)
    for name in STRUCTS & fields.keys():
        value = fields[name]
        found[name] = {"set": value is not None, "infinite": False, "number": value or 0}
    shared = fields["shared"]
    return {
        **found,
        "job_state": [fields["job_state"]],
        "shared": [shared] if shared else [],
        "step_id": {"job_id": 17, "sluid": "s0"},
        "submit_line": "sbatch x",
        "licenses_allocated": "",
        "segment_size": 0,
    }


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"shared": "none", "time_limit": None},
        {"array_job_id": 17, "array_task_id": 3, "tasks": 2, "cpus": 2},
        {**RUNS, "job_state": "COMPLETED"},
        {"features": "a|b", "memory_per_cpu": 512, "threads_per_core": 1, "max_nodes": 1},
    ],
)
def test_a_job_in_the_form_of_26_05_gives_the_facts_of_22_05(changes: dict[str, Any]) -> None:
    fields = {**JOB, "shared": None, **changes}
    old, new = SlurmJob(fields), SlurmJob(documented(fields))
    assert facts_of(new, TERMS).told == facts_of(old, TERMS).told
    assert not unknown_fields(new)
