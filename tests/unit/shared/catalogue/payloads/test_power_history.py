"""Rows of the predictor of job power as messages."""

from collections.abc import Callable
from math import inf
from typing import Any

import pytest

from coplace_client.errors import RejectedError
from shared.catalogue.contents.check import check_contents
from shared.catalogue.digest import require_sha256
from shared.catalogue.payloads.power_history import kind_of, update_of, updated
from shared.power_prediction.kinds import KindOfJob
from shared.power_prediction.online import EndedJob, OnlineLearner, RecentScores, TaughtKind

KIND = KindOfJob("gold", 3.1, "ada", "", "2 units", 3600.0)


def taught(runs: int = 30) -> TaughtKind:
    learner = OnlineLearner(0.1)
    for number in range(runs):
        predicted = learner.tables.predict(KIND)
        ended = EndedJob(f"job-{number}", KIND, 300.0 + number, predicted)
        [last] = learner.learn([ended], number + 1).taught
    return last


@pytest.mark.parametrize("runs", [1, 2, 30])
def test_rows_return_from_a_message_as_they_were(runs: int) -> None:
    last = taught(runs)
    message = updated(last, runs, RecentScores(0.1, 0.2))
    require_sha256(message)
    check_contents(message)
    assert update_of(message) == last.update
    assert kind_of(message) == KIND
    assert (message.version, message.learned_jobs) == (f"power-history@{runs}", runs)
    assert list(message.powers_w) == [300.0 + runs - 1]


def test_the_highest_power_is_not_reported_before_a_prediction_was_judged() -> None:
    message = updated(taught(1), 1, RecentScores(0, 0))
    assert message.highest_power_w == 0
    assert update_of(message).bound.highest_w == inf


CHANGES: list[Callable[[Any], object]] = [
    lambda m: setattr(m, "origin", b"another"),
    *(lambda m, name=name: m.ClearField(name) for name in ("similar", "margins", "job_ids")),
    lambda m: m.spreads_w.append(1.0),
    *(lambda m, name=name: getattr(m.similar[0], name).pop() for name in ("mean_log_w", "losses")),
    lambda m: m.similar[0].ClearField("newest_log_w"),
]


@pytest.mark.parametrize("change", CHANGES)
def test_rows_that_mean_something_else_here_are_refused(change: Callable[[Any], object]) -> None:
    message = updated(taught(), 30, RecentScores(0, 0))
    change(message)
    with pytest.raises(RejectedError):
        update_of(message)
