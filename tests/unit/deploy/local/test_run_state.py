from pathlib import Path

import pytest

from deploy.local.errors import NotRunningError
from deploy.local.run_state import RunState


def test_what_was_saved_is_found_again(tmp_path: Path) -> None:
    state = RunState("127.0.0.1:1", "redis://127.0.0.1:2/0", {"kafka": "kafka://127.0.0.1:1"})
    state.save(tmp_path)
    assert RunState.load(tmp_path) == state


def test_a_folder_without_servers_says_how_to_start_them(tmp_path: Path) -> None:
    with pytest.raises(NotRunningError, match="coplace local up"):
        RunState.load(tmp_path)
