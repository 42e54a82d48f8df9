"""How often properties are played, next to the examples that they declare."""

import os
from collections.abc import Iterator
from typing import Any, Final

import pytest
from hypothesis import is_hypothesis_test, settings

TIMES: Final = "COPLACE_EXAMPLES"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Multiply the examples of each property, once however many items share it."""
    times = float(os.environ.get(TIMES, "1"))
    if times == 1:
        return
    for owner, name in set(_places_of_settings(items)):
        declared: settings = getattr(owner, name)
        examples = max(round(declared.max_examples * times), 1)
        setattr(owner, name, settings(declared, max_examples=examples))


def _places_of_settings(items: list[pytest.Item]) -> Iterator[tuple[Any, str]]:
    """Hypothesis's marker is of no use here: its plugin sets it after this hook."""
    for item in items:
        function: Any = getattr(item, "obj", None)
        if not is_hypothesis_test(function):
            continue
        if hasattr(function, "_hypothesis_state_machine_class"):
            yield type(function.__self__), "settings"
        else:
            yield (
                getattr(function, "__func__", function),
                "_hypothesis_internal_use_settings",
            )
