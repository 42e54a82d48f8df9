"""Scenarios from files, `--set` and options."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cli.region_policy import RegionPolicy
from coplace_client.errors import UnusableError
from lab.simulate.options import OPTIONS
from lab.simulate.reading import scenario_of
from lab.simulate.scenarios import (
    KINDS,
    ClustersScenario,
    EuroraScenario,
    PoolScenario,
    RecordedScenario,
    Section,
)
from lab.simulation.lookahead import AS_TUNED
from lab.simulation.policy import SimulatedPolicy

CLUSTERS = """
kind: clusters
clusters: [p1, p2]
coefficients: models
policy: [base, look-ahead]
seeds: [1, 2, 3]
look_ahead:
  head: 20
"""
# Nothing but what is needed.
EASY = "kind: clusters\nclusters: p1\ncoefficients: x\n"
POOL = "kind: pool\nswf: x\n"
RECORDED = "kind: recorded\nrecorded: x\n"
TWICE = "is given twice: leave one out"
ALONE = "threshold is of priority-inc-v and look-ahead alone: leave it out"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "scenario.yaml"
    path.write_text(CLUSTERS)
    return path


def test_a_file_says_all_that_options_say(file: Path) -> None:
    options: dict[str, Any] = {
        "clusters": "p1,p2",
        "coefficients": Path("models"),
        "policy": [SimulatedPolicy.BASE, SimulatedPolicy.LOOK_AHEAD],
        "seeds": [1, 2, 3],
        "head": 20,
    }
    assert scenario_of(file, (), {}) == scenario_of(None, (), options)


def test_set_goes_before_the_file_and_options_before_both(file: Path) -> None:
    sets = ("policy=look-ahead", "seeds=4,5", "look_ahead.budget=3", "t_weight=2")
    found = scenario_of(file, sets, {"t_weight": [7.0]})
    assert isinstance(found, ClustersScenario)
    assert found.policy == (SimulatedPolicy.LOOK_AHEAD,)
    assert found.seeds == (4, 5)
    assert (found.look_ahead.head, found.look_ahead.budget) == (20, 3)
    assert found.t_weight == (7.0,)


def test_a_value_that_is_set_to_nothing_is_the_default_again(file: Path) -> None:
    found = scenario_of(file, ("seeds=", "look_ahead.head="), {})
    assert isinstance(found, ClustersScenario)
    assert found.seeds == (1,)
    assert found.look_ahead.ahead == AS_TUNED


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ({"swf": "x"}, PoolScenario),
        ({"clusters": "p1", "coefficients": "x"}, ClustersScenario),
        ({"system": "x", "coefficients": "x"}, ClustersScenario),
        ({"eurora": "x"}, EuroraScenario),
        ({"recorded": "x"}, RecordedScenario),
        ({"from_kafka": True}, RecordedScenario),
    ],
)
def test_options_say_what_is_simulated(values: dict[str, Any], kind: type) -> None:
    assert type(scenario_of(None, (), values)) is kind


def test_a_record_takes_the_policies_of_placement() -> None:
    found = scenario_of(None, (), {"recorded": "x", "policy": [SimulatedPolicy.BASE]})
    assert isinstance(found, RecordedScenario)
    assert found.policy == (RegionPolicy.BASE,)


def test_every_field_of_every_kind_has_an_option_and_says_what_it_is() -> None:
    for model in KINDS.values():
        for name, field in model.model_fields.items():
            is_section = isinstance(field.default, Section)
            assert is_section or (name in OPTIONS and field.description)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "it must have names and values"),
        ("- 1", "it must have names and values"),
        ("text", "it must have names and values"),
        ("kind: [pool", "is not usable YAML"),
        ("kind: ponds", "kind must be one of pool, clusters, eurora, recorded, got 'ponds'"),
        ("kind: [pool]", "kind must be one of"),
        ("kind: {a: b}", "kind must be one of"),
        ("kind: pool", "swf is needed: give a path"),
        (f"{POOL}seeds: 1", "seeds: of no use on one pool: leave it out"),
        (f"{POOL}seedz: 1", "seedz is not known: one pool has policy, kill"),
        (f"{POOL}procs: 0", "procs: Input should be greater than or equal to 1"),
        (f"{POOL}procs: many", "procs: Input should be a valid integer"),
        (f"{POOL}proc_w: .nan", "proc_w: Input should be"),
        (f"{POOL}proc_w: .inf", "proc_w: Input should be"),
        (f"{POOL}cap_w: 5", "cap_w needs proc_w: a log names no power"),
        (f"{POOL}proc_w: 5\ncap_w: 0", "cap_w: Input should be greater than 0"),
        (f"{POOL}cap_counts_idle: false", "cap_counts_idle is of no use without cap_w"),
        (f"{CLUSTERS}cap_counts_idle: false", "cap_counts_idle is of no use without cap_w"),
        *(
            (f"{POOL}runtimes: predicted\npolicy: [easy, {each}]", f"is of no use to {each}")
            for each in ("slurm", "sjf", "fcfs", "conservative")
        ),
        (f"{POOL}policy: [easy, hard]", "policy.1: Input should be 'fcfs'"),
        ("kind: pool\nswf: {a: {b: c}}", "swf: Input is not a valid path"),
        (f"{POOL}1: 2", "1: Keys should be strings"),
        ("kind: clusters\ncoefficients: x", "clusters or system is needed"),
        ("kind: clusters\nsystem: x\nclusters: p1", "leave out clusters, cap_w and region_cap_w"),
        ("kind: clusters\nsystem: x\nregion_cap_w: 5", "system says clusters and caps itself"),
        (f"{CLUSTERS}region_cap_w: 0", "region_cap_w: Input should be greater than 0"),
        (f"{CLUSTERS}region_cap_w: .nan", "region_cap_w: Input should be"),
        (f"{POOL}region_cap_w: 5", "region_cap_w: of no use on one pool"),
        (f"{CLUSTERS}mix: odd", "mix must be uniform or a share, got 'odd'"),
        (f"{CLUSTERS}t_weight: [1, -1]", "t_weight.1: Input should be greater than or equal to 0"),
        (f"{CLUSTERS}seeds: 1.5", "seeds.0: Input should be a valid integer"),
        (f"{CLUSTERS}cap_slowdown: 0.5", "cap_slowdown: Input should be greater than or equal to"),
        (f"{CLUSTERS}cap_slowdown: 2", "cap_slowdown is of no use without cap_w"),
        (f"{CLUSTERS}cap_w: 5\ncap_slowdown: 2\npolicy: slurm", "is of no use to slurm"),
        (f"{EASY}look_ahead: {{head: 20}}", "look_ahead.head is of the policy look-ahead alone"),
        (f"{EASY}policy: [base, priority-inc]\nthreshold: 0.35", ALONE),
        (f"{RECORDED}policy: base\nthreshold: 0.9", ALONE),
        (f"{EASY}counts: core", "counts is of no use to cirne, whose sizes count nodes"),
        (f"{EASY}workload: lublin\ncounts: node", "counts is of no use to lublin"),
        (f"{EASY}seeds: [1, 2, 1]", f"seeds: '1' {TWICE}"),
        (f"{EASY}policy: [easy, easy]", f"policy: 'easy' {TWICE}"),
        (f"{EASY}t_weight: [1, 1.0]", f"t_weight: '1.0' {TWICE}"),
        (f"{EASY}mix: [0.5, 0.50]", f"mix: '0.5' {TWICE}"),
        (f"{EASY}mix: [0.5, '.5']", "mix has one share twice: leave one out"),
        (f"{POOL}policy: [easy, easy]", f"policy: 'easy' {TWICE}"),
        ("kind: eurora\neurora: x\nqueues: y", "queues needs cap: without one instances are"),
        ("kind: clusters\nlook_ahead: 3", "look_ahead: Input should be"),
        ("kind: clusters\nlook_ahead: {tail: 3}", "look_ahead.tail is not known"),
        ("kind: recorded", "give recorded or from_kafka, one of them"),
        (f"{RECORDED}cap: p1", "is not a cap: write CLUSTER=WATTS"),
        (f"{POOL}policy: " + "[" * 30 + "]" * 30, "policy.0: Input should be"),
        ("kind: pool\nswf: " + "[" * 5000 + "]" * 5000, "nested over 32 levels deep"),
        ("a: &a [b]\nkind: pool\nswf: [*a, *a]", "aliases"),
        ("kind: !!python/object/apply:os.system [ls]", "is not usable YAML"),
        (POOL + "x" * 300_000 + ": 1", "characters"),
    ],
    ids=lambda text: text[:30],
)
def test_what_is_no_scenario_is_reported_in_one_line(
    text: str, problem: str, tmp_path: Path
) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    with pytest.raises(UnusableError) as caught:
        scenario_of(path, (), {})
    assert problem in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ("policy", "--set takes PLACE=VALUE"),
        ("=easy", "--set takes PLACE=VALUE"),
        ("policy.first=easy", "policy.first: policy is a value and has no first"),
        ("look_ahead.head=1", "look_ahead.head: Input should be greater than or equal to 2"),
        ("look_ahead=1", "look_ahead: Input should be"),
        ("slurm.bf_window_s=0", "slurm.bf_window_s: Input should be greater than 0"),
        ("policy=easy", "look_ahead.head is of the policy look-ahead alone: leave it out"),
        ("counts=core", "counts is of no use to cirne, whose sizes count nodes"),
        ("seeds=1,2,1", "seeds: '1' is given twice: leave one out"),
        ("slurm.bf_depth=9", "slurm.bf_depth is of the policy slurm alone: leave it out"),
        (".".join("a" * 5000) + "=1", "a is not known"),
        ("kind=pool", "swf is needed"),
    ],
    ids=lambda text: text[:20],
)
def test_what_cannot_be_set_is_reported_in_one_line(said: str, problem: str, file: Path) -> None:
    with pytest.raises(UnusableError) as caught:
        scenario_of(file, (said,), {})
    assert problem in str(caught.value)
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize(
    "text",
    [
        EASY,
        f"{EASY}look_ahead: {{}}",
        f"{EASY}policy: [easy, look-ahead]\nlook_ahead: {{head: 20}}",
        f"{EASY}policy: [easy, priority-inc-v]\nthreshold: 0.9",
        f"{EASY}policy: look-ahead\nthreshold: 0.9",
        f"{EASY}mix: [uniform, 0.33, 0.5]",
        f"{EASY}workload: some.swf\ncounts: core",
        # It says which cluster is best, of which there is a measure whatever the policy.
        f"{EASY}reading: printed",
        f"{RECORDED}threshold: 0.9",
        f"{RECORDED}policy: [base, look-ahead]\nthreshold: 0.9",
    ],
)
def test_what_something_reads_is_taken(text: str, tmp_path: Path) -> None:
    path = tmp_path / "good.yaml"
    path.write_text(text)
    scenario_of(path, (), {})


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=6,
)


@settings(max_examples=40)
@given(st.dictionaries(st.sampled_from([*OPTIONS, "kind", "look_ahead"]), _VALUES, max_size=5))
def test_any_values_make_a_scenario_or_are_refused(values: dict[str, Any]) -> None:
    try:
        scenario_of(None, (), {n: v for n, v in values.items() if n in OPTIONS})
    except UnusableError as error:
        assert "\n" not in str(error)  # noqa: PT017
