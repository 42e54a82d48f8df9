"""Schemas of the policy's settings take what can be declared, and refuse what cannot be."""

from typing import Any

import pytest
from jsonschema import Draft7Validator, Draft202012Validator

from shared.catalogue.policy_documents import reference, schema, variables
from shared.catalogue.policy_settings import SETTINGS, variable

FORM = schema()


def test_every_setting_is_in_each_with_its_default() -> None:
    properties = FORM["properties"]
    Draft202012Validator.check_schema(FORM)
    defaults = {name: each["default"] for name, each in properties.items()}
    assert defaults.keys() == SETTINGS.keys()
    assert Draft202012Validator(FORM).is_valid(defaults)
    assert set(variables()["properties"]) == {variable(name) for name in SETTINGS}
    assert all(f"\n| `{name}` | " in reference() for name in SETTINGS)


@pytest.mark.parametrize(
    "values",
    [
        {"cap_margin": 0.6},
        {"policy": "fifo"},
        {"most_requeues": -1},
        {"most_requeues": 1.5},
        {"cap_sharing": "yes"},
        {"cap_measures": "sleep"},
        {"of_tomorrow": 1},
    ],
)
def test_a_form_refuses_what_cannot_be(values: dict[str, Any]) -> None:
    assert not Draft202012Validator(FORM).is_valid(values)


@pytest.mark.parametrize(
    ("name", "value", "is_possible"),
    [
        ("CAP_MARGIN", 0.6, False),
        ("CAP_MARGIN", 0.1, True),
        ("CAP_MARGIN", "0.1", True),
        ("POLICY", "fifo", False),
        ("POLICY", "base", True),
        ("CAP_MEASURES", "", True),
        ("CAP_MEASURES", "suspend, end", True),
        ("CAP_SHARING", "true", True),
    ],
)
def test_an_environment_of_the_chart_may_be_written_as_texts(
    name: str, value: Any, is_possible: bool
) -> None:
    found = Draft7Validator(variables()).is_valid({f"COPLACE_PLACEMENT_{name}": value})
    assert found is is_possible
