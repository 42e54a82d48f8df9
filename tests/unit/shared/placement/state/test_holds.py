"""The newest word of each holder of a job counts, whichever order they come in."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from shared.placement.state.holds import (
    Holder,
    Holds,
    HoldWord,
    held_anew,
    holders_of,
    reasons,
    together,
    with_word,
    word_of,
)

PEOPLE = Holder.OPERATOR, Holder.USER, Holder.MANAGER
WORDS = st.lists(
    st.tuples(st.sampled_from((Holder.ALL, *PEOPLE)), st.booleans()), min_size=1, max_size=8
)


@given(WORDS, st.randoms(use_true_random=False))
def test_whichever_order_words_come_in_the_same_hold_a_job(
    said: list[tuple[Holder, bool]], random: Random
) -> None:
    words = [
        HoldWord(holder, (us, ""), f"{us}" if holds and holder is not Holder.ALL else None)
        for us, (holder, holds) in enumerate(said, start=1)
    ]
    expected = set()
    for who in PEOPLE:
        own = [each for each in words if each.holder in (who, Holder.ALL)]
        if own and own[-1].reason is not None:
            expected.add(who)
    random.shuffle(words)
    holds = together((), words)
    assert {each.holder for each in holds if each.reason is not None} == expected


def test_what_a_later_release_of_all_says_is_newer_than_a_hold_before_it() -> None:
    held = with_word((), HoldWord(Holder.USER, (5, "e"), "ada waits"))
    freed = with_word(held, HoldWord(Holder.ALL, (7, "f"), None))
    assert reasons(freed) == []
    assert word_of(freed, Holder.USER).asked == (7, "f")


def test_what_placement_holds_is_older_than_whatever_is_said_next() -> None:
    holds: Holds = (HoldWord(Holder.ALL, (7, "f"), None),)
    holds = held_anew(holds, Holder.PLACEMENT, "it failed")
    assert reasons(holds) == ["it failed"]
    assert reasons(with_word(holds, HoldWord(Holder.ALL, (8, "g"), None))) == []


def test_the_reasons_of_operators_come_last_and_none_comes_twice() -> None:
    said = {Holder.OPERATOR: "audit", Holder.USER: "by hand", Holder.MANAGER: "by hand"}
    holds = together((), [HoldWord(holder, (1, ""), why) for holder, why in said.items()])
    assert reasons(holds) == ["by hand", "audit"]


def test_a_release_that_names_nobody_is_of_all() -> None:
    assert holders_of(()) == [Holder.ALL]
    assert holders_of((2, 1, 2)) == [Holder.USER, Holder.MANAGER]
