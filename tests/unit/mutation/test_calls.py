"""Which tests a mutant is tried with."""

import json

from tests.mutation.calls import Tried, concerned, function_at, in_order, tried

FILE = "shared/scheduling/one.py"
SOURCE = """LIMIT = 3

def outer() -> int:
    def inner() -> int:
        return LIMIT
    return inner()

@lru_cache
def kept() -> int:
    return 1

class Pool:
    @property
    def free(self) -> int:
        return 2
"""


def test_the_innermost_function_is_found() -> None:
    assert [function_at(SOURCE, line) for line in (5, 6, 15)] == [4, 3, 13]


def test_outside_of_functions_and_in_one_whose_results_are_kept_there_is_none() -> None:
    assert [function_at(SOURCE, line) for line in (1, 10)] == [None, None]


def test_a_mutant_is_held_to_the_tests_that_call_its_function() -> None:
    tests = [
        Tried("a", 1.0, frozenset({(FILE, 3), (FILE, 4)})),
        Tried("b", 1.0, frozenset({(FILE, 3)})),
        Tried("c", 1.0, frozenset({("shared/scheduling/two.py", 4)})),
    ]
    assert concerned(tests, FILE, SOURCE, 5) == ["a"]
    assert concerned(tests, FILE, SOURCE, 6) == ["a", "b"]
    assert concerned(tests, FILE, SOURCE, 1) == ["a", "b"]
    assert concerned(tests, "shared/scheduling/three.py", SOURCE, 1) == ["a", "b", "c"]


def test_the_fastest_come_first_each_with_one_case_and_random_systems_last() -> None:
    names = ["tests/core/x[0]", "u[1]", "u[2]", "slow", "fast"]
    seconds = [0.1, 0.2, 0.2, 9.0, 0.1]
    tests = [Tried(*each, frozenset()) for each in zip(names, seconds, strict=True)]
    assert in_order(tests) == ["fast", "u[1]", "slow", "u[2]", "tests/core/x[0]"]


def test_what_was_written_down_is_read_as_it_was() -> None:
    one = Tried("a", 1.5, frozenset({(FILE, 3), (FILE, 4)}))
    assert tried(json.loads(json.dumps(one.as_json()))) == one
