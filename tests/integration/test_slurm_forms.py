"""Releases of Slurm, built once by deploy/build-slurm.sh, write three forms of JSON each: jobs read
from each are the same, and all their fields are in the table."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

import pytest

from services.slurm.model.facts import facts_of
from services.slurm.model.fields import FIELDS, why_not_followed
from services.slurm.model.forms import unknown_form
from services.slurm.model.jobs import SlurmJob
from services.slurm.model.select_rules import SelectRules
from tests.support.slurm import BUILT, LocalSlurm, built_slurm
from tests.unit.services.slurm.region import TERMS

FORMS: Final = {
    "24.11": ("v0.0.40", "v0.0.41", "v0.0.42"),
    # 26.05 when this was written: another one has other forms, and fails here.
    "newest": ("v0.0.43", "v0.0.44", "v0.0.45"),
}
KINDS: Final = (
    "--ntasks=3",
    "--nodes=2 --exclusive",
    "--nodes=1-2 --oversubscribe",
    "--array=1-3%2",
    "--begin=now+1hour --deadline=now+1day --time=5",
    "--dependency=singleton --nice=30",
    "--mem=300 --threads-per-core=1",
    "--contiguous --nodes=2 --switches=1",
    "--partition=all --exclude=n1 --hold",
)

# These Slurms are built from packages of other Debians.
pytestmark = pytest.mark.thorough


class BuiltSlurm(NamedTuple):
    """One that runs, with jobs of all kinds, and the forms that it writes."""

    running: LocalSlurm
    forms: Sequence[str]


@pytest.fixture(scope="module", params=BUILT)
def slurm(request: pytest.FixtureRequest) -> Iterator[BuiltSlurm]:
    root = built_slurm(request.param)
    with TemporaryDirectory(dir=root / "tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "cgroup.conf").write_text("CgroupPlugin=disabled\n")
        with LocalSlurm(folder, root) as found:
            for options in KINDS:
                found.say("sbatch", "--output=/dev/null", "--wrap=true", *options.split())
            yield BuiltSlurm(found, FORMS[request.param])


def shown(slurm: BuiltSlurm, form: str) -> dict[str, Any]:
    said: dict[str, Any] = json.loads(slurm.running.say("squeue", "--states=all", f"--json={form}"))
    return said


def test_each_form_is_known_and_all_its_fields_are_in_the_table(slurm: BuiltSlurm) -> None:
    for form in slurm.forms:
        said = shown(slurm, form)
        assert unknown_form(said) == ""
        names = {name for job in said["jobs"] for name in job}
        assert names <= FIELDS.keys(), sorted(names - FIELDS.keys())


def test_each_form_gives_the_same_facts(slurm: BuiltSlurm) -> None:
    found = [
        [
            (why_not_followed(job, SelectRules(has_topology=True)), facts_of(job, TERMS).told)
            for job in map(SlurmJob, shown(slurm, form)["jobs"])
        ]
        for form in slurm.forms
    ]
    assert len(found[0]) == len(KINDS)
    assert found[0] == found[1] == found[2]


def test_a_form_that_it_does_not_write_is_refused(slurm: BuiltSlurm) -> None:
    with pytest.raises(AssertionError):
        shown(slurm, "v0.0.99")
