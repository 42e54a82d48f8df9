"""Users read why something waits."""

from shared.kubernetes.explained_wait import ExplainedWait

NOW_US = 1_767_225_600_000_000


def test_users_read_why_and_when() -> None:
    assert ExplainedWait("no nodes", NOW_US).words == (
        "Coplace: no nodes; expected to start at 2026-01-01T00:00:00Z"
    )
    assert ExplainedWait().words == "Coplace: it waits for its turn"
