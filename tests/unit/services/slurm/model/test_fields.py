"""What becomes of each field of a job of Slurm's."""

from pathlib import Path
from typing import Any

import pytest

from services.slurm.model.fields import (
    FIELDS,
    UNREAD,
    Treatment,
    unknown_fields,
    why_not_followed,
)
from services.slurm.model.fields_page import page
from services.slurm.model.jobs import SlurmJob
from services.slurm.model.select_rules import SelectRules
from tests.support.snippets import REPOSITORY
from tests.unit.services.slurm.fields import JOB

PLUGINS = SelectRules(has_topology=True, has_labels=True, has_burst_buffers=True)
WIDE = {"node_count": 2, "max_nodes": 2}
PAGE = Path(__file__).parents[5] / "docs" / "slurm-fields.md"


# The names that Slurm 22.05, 24.11 and 26.05 show.
SHOWN = {
    file.stem: frozenset(file.read_text().split())
    for file in (Path(__file__).parent / "squeue_fields").glob("*.txt")
}


@pytest.mark.parametrize("form", ["v0.0.38", "v0.0.40", "v0.0.42", "v0.0.45"])
def test_every_field_of_a_known_form_is_in_the_table(form: str) -> None:
    assert SHOWN[form] <= FIELDS.keys(), sorted(SHOWN[form] - FIELDS.keys())


def test_the_table_has_no_field_that_no_release_shows() -> None:
    # `reservation` is that of forms between.
    assert FIELDS.keys() <= {"reservation"}.union(*SHOWN.values())


def test_the_page_is_that_of_the_table() -> None:
    assert PAGE.read_text() == page(), "coplace slurm fields > docs/slurm-fields.md"


@pytest.mark.parametrize(
    ("asks", "words"),
    [
        ({"contiguous": True, **WIDE}, "nodes side by side"),
        ({"required_switches": 1, **WIDE}, "so few switches"),
        ({"minimum_switches": 1, **WIDE}, "so few switches"),
        ({"segment_size": 2, **WIDE}, "segments of a block"),
        ({"burst_buffer": "capacity=1"}, "a burst buffer"),
        ({"federation_siblings_viable": "a,b"}, "a job of a federation"),
        ({"reservation": "a,b"}, "several reservations"),
        ({"features": "[a|b]", **WIDE}, "features: needs a name"),
        ({"required_nodes": "n[1"}, "n[1"),
    ],
)
def test_what_slurm_would_act_on_and_coplace_can_t_follow_holds_the_job(
    asks: dict[str, Any], words: str
) -> None:
    reason = why_not_followed(SlurmJob({**JOB, **asks}), PLUGINS)
    assert reason.startswith("Coplace can't follow it: ")
    assert words in reason


def test_what_this_slurm_takes_no_notice_of_holds_no_job() -> None:
    asks = {"required_switches": 1, "segment_size": 2, "burst_buffer": "capacity=1", **WIDE}
    assert not why_not_followed(SlurmJob({**JOB, **asks}), SelectRules())
    assert not why_not_followed(SlurmJob({**JOB, "contiguous": True}), PLUGINS)


def test_every_field_that_holds_a_job_says_when() -> None:
    for name, field in FIELDS.items():
        assert (field.why_held is not None) or field.treatment is not Treatment.HELD, name


def test_a_field_that_no_table_has_is_unknown_where_it_says_something() -> None:
    nothing = {"set": False, "infinite": False, "number": 0}
    new = {"a": "x", "b": {"set": True, "number": 1}, "c": {"infinite": True, "set": False}}
    silent: dict[str, Any] = {
        "d": nothing,
        "e": "",
        "f": [],
        "g": {"deep": nothing},
        "h": None,
        "i": 0,
    }
    assert unknown_fields(SlurmJob({**JOB, **new, **silent})) == {"a", "b", "c"}


def test_on_one_node_brackets_are_parentheses_and_the_script_s_node_has_its_features_too() -> None:
    assert SlurmJob({**JOB, "features": "[a|b]"}).features == "(a|b)"
    assert SlurmJob({**JOB, "features": "a|b", "batch_features": "b"}).features == "(a|b)&(b)"


def test_what_is_kept_of_no_job_nobody_reads() -> None:
    rooms = ("services/slurm", "shared/slurm")
    sources = [file for room in rooms for file in (REPOSITORY / room).rglob("*.py")]
    read = {
        name
        for file in sources
        if file.name != "fields.py"
        for name in UNREAD
        if f'"{name}"' in file.read_text(encoding="utf-8")
    }
    assert sources
    assert read == set()
