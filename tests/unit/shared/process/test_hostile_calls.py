"""A small form of the attack that `make fuzz-grpc` plays at length."""

from tests.attacks.grpc_calls import Caller, play, targets


async def test_no_call_ends_a_service_or_fails_without_a_reason() -> None:
    answers, wrong = await play(3, 500)
    assert wrong == []
    assert sum(answers.values()) == 500
    assert {"OK", "INVALID_ARGUMENT", "NOT_FOUND", "UNIMPLEMENTED"} <= answers.keys()


def test_every_method_and_those_of_tools_are_called() -> None:
    caller, known = Caller(1), {(each.service, each.name) for each in targets()}
    called = {
        (call.target.service, call.target.name) for call in (caller.call() for _ in range(500))
    }
    assert called == known
    assert ("grpc.health.v1.Health", "Watch") in known
    assert ("coplace.v1.WatchService", "WatchDecisions") in known


def test_equal_seeds_draw_equal_calls() -> None:
    one, again, other = (Caller(seed) for seed in (1, 1, 2))
    drawn = [[each.call() for _ in range(50)] for each in (one, again, other)]
    assert drawn[0] == drawn[1] != drawn[2]
