"""Policy, weights, thresholds and times can be declared while placement runs."""

from typing import Any

import pytest
from coplace.v1.control_pb2 import POWER_SCOPE_REGION, PolicyDeclared
from coplace.v1.placement_pb2 import PlacementDecided

from coplace_client.errors import RejectedError, UnusableError
from shared.catalogue.contents.check import check_contents
from shared.catalogue.policy_settings import DECLARABLE, SETTINGS, PolicySettings
from shared.domain.cap_measures import Measure
from shared.domain.eamc_policy import Policy
from shared.placement.evaluate import layer as of_placement
from shared.placement.processor.placement import Placement
from shared.placement.settings import RuleSettings
from shared.placement.state.policy_in_force import told
from shared.streams.stages.stage import AlreadyAppliedError
from shared.streams.state.events import EVENTS
from tests.unit.shared.placement.region import (
    APPS,
    T0_US,
    capped,
    declined,
    event,
    finished,
    lost,
    placement,
    policy,
    round_of,
    saved,
    started,
    submitted,
    verdict,
)


def restarted(processor: Placement, policy: Policy = Policy.PRIORITY_INC_V) -> Placement:
    """From what it kept since it began."""
    return Placement(saved(processor.changes()), PolicySettings(policy), 7.0)


def setting(processor: Placement, name: str) -> tuple[str, str, str, str]:
    """What it is, was, by whom and why."""
    found = {one.name: one for one in processor.queries.policy().settings}[name]
    return found.value, found.started_with, found.declared_by, found.reason


def by_policy(decided: list[PlacementDecided]) -> dict[str, str]:
    return {one.job_id: one.policy for one in decided}


def test_a_declared_policy_decides_the_round_that_brings_it_and_its_decisions_name_it() -> None:
    processor = placement()
    assert by_policy(round_of(processor, 0, submitted("a"))) == {"a": "priority-inc-v"}
    told_at = policy(T0_US + 30_000_000, policy="min-energy", reason="a dear night")
    assert by_policy(round_of(processor, 1, told_at, submitted("b", T0_US + 1))) == {
        "b": "min-energy"
    }


def test_what_is_decided_is_what_a_process_decides_that_was_started_so() -> None:
    jobs = [submitted(f"j{n}", T0_US + n, app_id=APPS[n % 8], nodes=2) for n in range(12)]
    for name in Policy:
        declared_later = placement(policy=Policy.BASE)
        round_of(declared_later, 0, policy(policy=name, t_weight=3.0, quantile=0.7))
        so_from_the_start = placement(policy=name, t_weight=3.0, quantile=0.7)
        round_of(so_from_the_start, 0)
        assert round_of(declared_later, 1, *jobs) == round_of(so_from_the_start, 1, *jobs)


def test_a_job_whose_turn_has_not_come_is_decided_and_named_by_the_policy_that_weighed_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(of_placement, "_MOST_EVALUATED_ANEW", 1)
    processor = placement(policy=Policy.MIN_RUNTIME)
    full = round_of(processor, 0, submitted("f1", nodes=4), submitted("f2", T0_US + 1, nodes=4))
    reports = [started(one) for one in full]
    waiting = [submitted(f"w{n}", T0_US + 2 + n) for n in range(3)]
    round_of(processor, 1, *reports, *waiting)
    ends = [finished(name, T0_US + 70_000_000, grant=1) for name in ("f1", "f2")]
    decided = round_of(processor, 2, policy(T0_US + 60_000_000, policy="base"), *ends)
    assert by_policy(decided) == {"w0": "base", "w1": "min-runtime", "w2": "min-runtime"}
    assert {verdict(one) for one in decided} == {"start"}
    assert processor.queries.policy().still_to_weigh == 0


def test_what_was_declared_outlives_a_kill_and_other_settings_of_the_next_process() -> None:
    processor = placement()
    round_of(processor, 0, policy(policy="min-energy", threshold=0.1, reason="why"))
    after = restarted(processor, Policy.BASE)
    assert setting(after, "policy") == ("min-energy", "base", "test", "why")
    assert setting(after, "threshold")[0] == "0.1"
    assert by_policy(round_of(after, 1, submitted("a"))) == {"a": "min-energy"}


def test_of_each_setting_the_newest_word_counts_whatever_the_order_in_which_they_come() -> None:
    processor = placement()
    late = policy(T0_US + 5, policy="base", t_weight=2.0)
    early = policy(T0_US + 3, policy="min-energy", threshold=0.7)
    round_of(processor, 0, late, early)
    found = {name: setting(processor, name)[0] for name in ("policy", "t_weight", "threshold")}
    assert found == {"policy": "base", "t_weight": "2", "threshold": "0.7"}
    with pytest.raises(AlreadyAppliedError):
        processor.handle(policy(T0_US + 4, policy="reorder"))
    assert restarted(processor).queries.policy().settings == processor.queries.policy().settings


def test_a_reset_setting_is_as_the_process_was_started_and_says_who_reset_it() -> None:
    processor = placement()
    round_of(processor, 0, policy(policy="base", cap_measures=""))
    assert setting(processor, "cap_measures")[0] == ""
    round_of(processor, 1, policy(T0_US + 1, reset=["policy"], reason="it was a try"))
    value, was, by, reason = setting(processor, "policy")
    assert (value, was, by, reason) == ("priority-inc-v", "priority-inc-v", "test", "it was a try")
    assert setting(processor, "cap_measures")[0] == ""


def test_a_cap_that_refused_a_job_starts_it_slower_once_that_is_declared() -> None:
    processor = placement(nodes=1)
    idle_w = 2 * 100.0
    cap = capped(POWER_SCOPE_REGION, "", (0, idle_w + 150.0))
    [waits] = round_of(processor, 0, cap, submitted("a"))
    assert verdict(waits) != "start"
    [starts] = round_of(processor, 1, policy(T0_US + 1, cap_slowdown=2.0))
    assert (verdict(starts), starts.HasField("instead_of")) == ("start", True)


def test_a_job_is_held_by_a_count_of_missed_starts_that_is_declared_later() -> None:
    processor = placement(most_missed_starts=0)
    [start] = round_of(processor, 0, submitted("a"))
    gone = [lost(name, T0_US) for name in ("p1", "p2")]
    round_of(processor, 1, declined(start, T0_US + 40_000_000), *gone)
    decided = round_of(processor, 2, policy(T0_US + 60_000_000, most_missed_starts=1))
    assert [verdict(one) for one in decided] == ["held"]


@pytest.mark.parametrize(
    ("said", "named"),
    [
        ({}, "policy"),
        ({"policy": "fifo"}, "policy"),
        ({"reading": "aloud"}, "reading"),
        ({"t_weight": -1.0}, "t_weight"),
        ({"threshold": float("nan")}, "threshold"),
        ({"quantile": 1.0}, "quantile"),
        ({"max_slowdown": 0.5}, "max_slowdown"),
        ({"cap_slowdown": 0.0}, "cap_slowdown"),
        ({"cap_power_sd": 1.1}, "cap_power_sd"),
        ({"cap_power_sd": -0.1}, "cap_power_sd"),
        ({"cap_user_correlation": 1.1}, "cap_user_correlation"),
        ({"cap_user_correlation": -0.1}, "cap_user_correlation"),
        ({"cap_risk": 0.6}, "cap_risk"),
        ({"cap_risk": 0.0}, "cap_risk"),
        ({"cap_margin": 0.6}, "cap_margin"),
        ({"cap_measures": "suspend,suspend"}, "cap_measures"),
        ({"most_node_failures": 101}, "most_node_failures"),
        ({"node_failure_window_s": 0.0}, "node_failure_window_s"),
        ({"reset": ["most_applications"]}, "reset[0]"),
        ({"reset": ["policy"], "policy": "base"}, "reset[0]"),
        ({"reset": ["policy", "policy"]}, "reset[1]"),
    ],
)
def test_what_cannot_be_is_refused_by_the_name_of_the_setting(
    said: dict[str, Any], named: str
) -> None:
    with pytest.raises(RejectedError) as refused:
        check_contents(PolicyDeclared(**said, declared_at_us=T0_US))
    assert refused.value.field == named


def test_every_setting_is_one_of_the_process_and_of_the_rules() -> None:
    assert set(SETTINGS) < set(RuleSettings.model_fields)
    assert RuleSettings().rules == PolicySettings()
    found = told(RuleSettings().rules)
    assert found.keys() == DECLARABLE.keys()
    assert found["cap_measures"] == "lower-frequency,suspend"
    assert (found["cap_counts_idle"], found["node_failure_window_s"]) == ("true", "86400")


def test_measures_are_handed_on_in_the_words_of_their_variable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COPLACE_PLACEMENT_CAP_MEASURES", "suspend, end")
    given = RuleSettings()
    assert given.rules.cap_measures == (Measure.SUSPEND, Measure.END)
    assert given.model_dump(mode="json")["cap_measures"] == "suspend,end"


def test_a_setting_that_a_later_release_declared_stops_a_process_until_it_is_reset() -> None:
    known = PolicyDeclared(t_weight=2.0)
    known.settings.add(name="of_tomorrow", value="1")
    later = event("policy/later", known, T0_US)
    state = {f"policy|{name}": EVENTS.encode(later) for name in ("t_weight", "of_tomorrow")}
    with pytest.raises(UnusableError, match=r"of_tomorrow was declared by test, .* reset of_tom"):
        Placement(state, PolicySettings(), 7.0)
    reset = PolicyDeclared(reset=["of_tomorrow"])
    state["policy|of_tomorrow"] = EVENTS.encode(event("policy/reset", reset, T0_US + 1))
    assert setting(Placement(state, PolicySettings(), 7.0), "t_weight")[0] == "2"
