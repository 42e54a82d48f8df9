"""What is learned as jobs end, and the tables by which it is evaluated elsewhere."""

import math
from statistics import fmean

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.power_prediction import online
from shared.power_prediction.kinds import KindOfJob
from shared.power_prediction.online import EndedJob, Lesson, OnlineLearner
from shared.power_prediction.similar_jobs import PowerTables, PowerUpdate

ALPHA = 0.1


def kind(
    user: str = "ada", app_id: str = "lu", size: str = "2", node_model: str = "gold"
) -> KindOfJob:
    return KindOfJob(node_model, 3.1, user, app_id, size, 3600.0)


def last_updates(lessons: list[Lesson]) -> dict[KindOfJob, PowerUpdate]:
    """The newest rows of each kind."""
    return {each.update.kind: each.update for lesson in lessons for each in lesson.taught}


def ended(number: int, of: KindOfJob, power_w: float, learner: OnlineLearner) -> EndedJob:
    """A job that was predicted when it started, now."""
    return EndedJob(f"job-{number}", of, power_w, learner.tables.predict(of))


def teach(learner: OnlineLearner, count: int, seed: int = 0, first: int = 0) -> list[Lesson]:
    """Jobs of four users with two applications each, whose powers differ by a tenth."""
    rng = np.random.default_rng(seed)
    lessons = []
    for number in range(first, first + count):
        user, app = rng.integers(4), rng.integers(2)
        of = kind(f"u{user}", f"a{app}", str(rng.integers(1, 3)))
        power_w = 200.0 * (1 + user / 4 + app / 8) * math.exp(0.1 * rng.standard_normal())
        lessons.append(learner.learn([ended(number, of, power_w, learner)], 10 * number + 1))
    return lessons


def test_similar_jobs_say_what_they_drew() -> None:
    learner = OnlineLearner(ALPHA)
    for number in range(20):
        learner.learn([ended(number, kind(), 300.0, learner)], number + 1)
        learner.learn([ended(number, kind("bob"), 200.0, learner)], 1_000 + number)
    found = [learner.tables.predict(kind(user)) for user in ("ada", "bob")]
    assert [power.predicted_w for power in found if power] == pytest.approx([300, 200])
    assert learner.tables.predict(kind(node_model="other")) is None
    [taught] = learner.learn([EndedJob(f"j{n}", kind(), 300.0, None) for n in range(100)], 1).taught
    jobs = [job_id for job_id, _ in taught.jobs]
    assert jobs == [f"j{n}" for n in range(68, 100)], "no more than are kept"


def test_who_is_new_is_predicted_by_the_application_and_then_by_all() -> None:
    learner = OnlineLearner(ALPHA)
    for number in range(20):
        learner.learn([ended(number, kind("ada", "lu"), 300.0, learner)], 2 * number + 1)
        learner.learn([ended(number, kind("ada", "bt"), 200.0, learner)], 2 * number + 2)
    for app_id, power_w in (("lu", 300), ("bt", 200)):
        power = learner.tables.predict(kind("new", app_id, "64"))
        assert power is not None
        assert power.predicted_w == pytest.approx(power_w)
    unknown = learner.tables.predict(kind("new", "", "64"))
    assert unknown is not None
    assert 200 <= unknown.predicted_w <= 300


@pytest.mark.parametrize("alpha", [0.1, 0.02])
def test_the_share_of_jobs_above_the_bound_is_the_one_that_was_asked_for(alpha: float) -> None:
    lessons = teach(OnlineLearner(alpha), 1_300)
    judged = [each for lesson in lessons[300:] for each in lesson.judged]
    assert fmean(each.is_above for each in judged) == pytest.approx(alpha, abs=0.01)


@settings(max_examples=6, deadline=None)
@given(st.integers(0, 2**32 - 1), st.data())
def test_whoever_folds_what_was_published_predicts_the_same_to_the_last_digit(
    seed: int, data: st.DataObject
) -> None:
    learner = OnlineLearner(ALPHA)
    lessons = teach(learner, 60, seed)
    updates = [each.update for lesson in lessons for each in lesson.taught]
    newest = last_updates(lessons)
    evaluator, compacted = PowerTables(), PowerTables()
    for update in updates:
        evaluator.fold(update)
    for update in data.draw(st.permutations(list(newest.values()))):
        compacted.fold(update)
    kinds = [*newest, kind("u0", "a1", "9"), kind("new"), kind("u1", "")]
    for of in kinds:
        expected = learner.tables.predict(of)
        assert evaluator.predict(of) == compacted.predict(of) == expected


@settings(max_examples=6, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(0, 120))
def test_a_learner_that_was_restarted_goes_on_as_the_one_that_lived(seed: int, at: int) -> None:
    lived = OnlineLearner(ALPHA)
    before = teach(lived, at, seed)
    judged = [each for lesson in before for each in lesson.judged]
    restarted = OnlineLearner(ALPHA, last_updates(before).values(), judged, lived.progress)
    assert teach(restarted, 40, seed + 1, at) == teach(lived, 40, seed + 1, at)
    assert restarted.scores == lived.scores
    other = OnlineLearner(0.05, progress=lived.progress)
    assert other.progress.level == 0.05, "one of another alpha is not taken over"


def test_a_restart_forgets_the_predictions_that_were_judged_long_ago_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(online, "MOST_JUDGED", 50)
    lived = OnlineLearner(ALPHA)
    before = teach(lived, 200)
    judged = [each for lesson in before for each in lesson.judged][-50:]
    monkeypatch.setattr(online, "_RECENT", 50)
    restarted = OnlineLearner(ALPHA, last_updates(before).values(), judged, lived.progress)
    now, then = teach(restarted, 100, 1, 200), teach(lived, 100, 1, 200)
    assert [each.taught for each in now] == [each.taught for each in then]


def test_kinds_that_ended_long_ago_are_dropped_with_what_they_alone_said() -> None:
    tables, kept = PowerTables(most_kinds=10), PowerTables(most_kinds=10)
    learner = OnlineLearner(ALPHA)
    learner.tables = tables
    gone: list[KindOfJob] = []
    newest: dict[KindOfJob, PowerUpdate] = {}
    for number in range(60):
        of = kind(f"u{number % 3}", f"a{number % 7}", str(number % 13))
        lesson = learner.learn([ended(number, of, 300.0 + number, learner)], number + 1)
        newest |= {each.update.kind: each.update for each in lesson.taught}
        for each in lesson.forgotten:
            del newest[each]
        gone += lesson.forgotten
        assert len(tables) <= 10
    for update in newest.values():
        kept.fold(update)
    assert gone
    for of in (*newest, *gone):
        assert kept.predict(of) == tables.predict(of)
