"""What an executor keeps of pods says the same as all of them."""

from hypothesis import given
from hypothesis import strategies as st

from services.kubernetes.model.run_pods import (
    PodDisruption,
    kept_pods,
    pod_fields,
    read_disruption,
    read_pods,
)
from shared.kubernetes.pods import RunPod, all_ready_us, begun_us, ended_us


@st.composite
def courses(draw: st.DrawFn) -> tuple[int, list[list[RunPod]]]:
    """Pods of a run as they are seen, look by look, with how many it has at a time: one that ends
    is followed by another."""
    count, now_us, live, looks = draw(st.integers(1, 4)), 10, list[RunPod](), []
    for number in range(draw(st.integers(1, 12))):
        if len(live) >= count:
            now_us += draw(st.integers(0, 3))
            at = draw(st.integers(0, len(live) - 1))
            live[at] = live[at]._replace(ended_us=now_us, is_over=True)
            looks.append(list(live))
            live.pop(at)
        now_us += draw(st.integers(0, 3))
        live.append(RunPod(f"p{number}", "physics", ready_us=now_us, started_us=now_us - 1))
        looks.append(list(live))
    return count, looks


@given(courses())
def test_what_is_kept_of_pods_says_what_all_of_them_say(
    course: tuple[int, list[list[RunPod]]],
) -> None:
    count, looks = course
    kept, known = list[RunPod](), dict[str, RunPod]()
    for seen in looks:
        known |= {each.uid: each for each in seen}
        kept = list(
            read_pods([pod_fields(each) for each in kept_pods(kept, seen, count)], "physics")
        )
        pods = list(known.values())
        assert all_ready_us(kept, count) == all_ready_us(pods, count)
        assert begun_us(kept, count) == begun_us(pods, count)
        assert ended_us(kept) == ended_us(pods)
        assert all(each.is_over for each in kept) == all(each.is_over for each in pods)
        assert len(kept) <= 2 * count


def test_a_process_that_begins_anew_keeps_when_a_pod_was_ready() -> None:
    before = [RunPod("p", "physics", ready_us=20, started_us=10)]
    seen = [RunPod("p", "physics", started_us=10, ended_us=30, is_over=True)]
    [found] = kept_pods(before, seen, 1)
    assert (found.began_us, found.ended_us) == (20, 30)


def test_a_pod_that_nobody_saw_begin_counts_from_when_all_were_ready() -> None:
    before = [RunPod("p", "physics", ready_us=20, started_us=10)]
    unseen = RunPod("q", "physics", started_us=12, ended_us=25, is_over=True)
    assert begun_us(kept_pods(before, [unseen], 1), 1) == 20


def test_a_disruption_is_read_as_it_was_reported() -> None:
    found = PodDisruption("preempted", ("n1",))
    assert read_disruption(found.to_fields()) == found
    assert read_disruption(None) is None
    assert read_disruption({"reason": "x", "failedNodes": "n1"}) == PodDisruption("x")


def test_pods_that_cannot_be_read_say_nothing() -> None:
    assert read_pods("none", "physics") == []
    assert read_pods([{"uid": "p", "readyUs": "soon"}], "physics") == [RunPod("p", "physics")]


def test_of_a_run_of_thousands_of_pods_none_is_kept() -> None:
    assert len(kept_pods([], [RunPod("p", "physics")], 2500)) == 1
    assert not kept_pods([], [RunPod("p", "physics")], 2501)
