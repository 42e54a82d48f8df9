"""Options of `coplace simulate` that several kinds share."""

from typing import get_args

from lab.simulate.options import OPTIONS


def test_the_help_of_an_option_says_what_each_kind_takes() -> None:
    typed = get_args(OPTIONS["policy"].parameter.annotation)[1]
    assert "look-ahead. On Eurora: What decides under the cap. Take hybrid-rapl where" in typed.help
    assert "each job draws what is predicted. (default: hybrid-rapl) ls, " in typed.help
    assert typed.help.endswith(
        "On a record: What decides; several are compared. look-ahead is by the settings of the "
        "planner. base, min-runtime, min-energy, reorder, priority-inc, priority-inc-v, look-ahead."
    )
