"""How a script ended is read from each form of it."""

from typing import Any

import pytest

from shared.slurm.exits import exit_of, exit_text


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (768, "3:0"),
        (9, "0:9"),
        (137, "0:9"),  # with a core dump
        ({"set": True, "infinite": False, "number": 256}, "1:0"),
        ({"return_code": 3, "status": "ERROR"}, "3:0"),
        ({"return_code": {"set": True, "number": 3}, "signal": {"id": {"set": False}}}, "3:0"),
        ({"return_code": {"set": False}, "signal": {"id": {"set": True, "number": 9}}}, "0:9"),
        ({"return_code": 0, "signal": {"signal_id": 15, "name": "TERM"}}, "0:15"),
        ({"set": False, "number": 0}, ""),
        (None, ""),
        ("x", ""),
    ],
)
def test_every_form_of_an_exit_is_read(shown: Any, text: str) -> None:
    assert exit_text(shown) == text


@pytest.mark.parametrize(
    ("text", "found"),
    [("3:0", (3, 0)), ("0:9", (0, 9)), ("", (0, 0)), ("3", (0, 0)), ("999:999", (0, 0))],
)
def test_what_is_no_exit_says_nothing(text: str, found: tuple[int, int]) -> None:
    assert exit_of(text) == found
