"""What is reported of mutants that were tried."""

import pytest

from tests.mutation.results import Result, Verdict, change, counts, survivors, verdict
from tests.mutation.suite import TIME_IS_UP, files, stages

DIFF = """--- mutation diff ---
--- a/shared/scheduling/one.py
+++ b/shared/scheduling/one.py
shared.placement. -1,3 +1,3 shared.placement.
 before
-    return total + 1
+    return total - 1
 after"""


def result(said: Verdict, line: int = 1) -> Result:
    return Result("shared/scheduling/one.py", line, said, "a + b -> a - b", "Add_Sub")


@pytest.mark.parametrize(
    ("outcome", "output", "expected"),
    [
        ("survived", "1 passed", Verdict.SURVIVED),
        ("killed", "1 failed", Verdict.KILLED),
        ("killed", "timeout", Verdict.TIMED_OUT),
        ("killed", f"...{TIME_IS_UP}", Verdict.TIMED_OUT),
        ("incompetent", "Traceback", Verdict.FAULTY),
        ("", "", Verdict.FAULTY),
    ],
)
def test_a_verdict_distinguishes_time_outs_and_faults(
    outcome: str, output: str, expected: Verdict
) -> None:
    assert verdict(outcome, output) is expected


def test_a_change_is_reported_by_its_lines() -> None:
    assert change(DIFF) == "return total + 1 -> return total - 1"


def test_who_timed_out_counts_as_killed_and_what_was_not_tried_as_nothing() -> None:
    said = (Verdict.KILLED, Verdict.KILLED, Verdict.TIMED_OUT, Verdict.SURVIVED, Verdict.FAULTY)
    assert counts(list(map(result, said))) == ["5", "3", "1", "1", "75.0"]
    assert counts([]) == ["0", "0", "0", "0", "-"]


def test_survivors_are_reported_in_the_order_of_the_source() -> None:
    results = [result(Verdict.SURVIVED, 20), result(Verdict.KILLED), result(Verdict.SURVIVED, 3)]
    assert survivors(results) == [
        "shared/scheduling/one.py:3: a + b -> a - b  [Add_Sub]",
        "shared/scheduling/one.py:20: a + b -> a - b  [Add_Sub]",
    ]


def test_random_systems_are_a_stage_of_their_own() -> None:
    chosen = ["tests/unit/b.py::y", "tests/core/test_core.py::x[0]", "tests/unit/b.py::z"]
    assert stages(chosen) == (["tests/unit/b.py::y", "tests/unit/b.py::z"], [chosen[1]])
    assert files(stages(chosen)[0]) == ["tests/unit/b.py"]
