"""What changes is passed on."""

from typing import Any
from unittest.mock import Mock, call

from services.kueue.adapters.watchers import NamedWatcher, WorkloadPodWatcher, WorkloadRecordWatcher


def named(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}}


def test_of_few_objects_all_are_passed_on_at_each_change() -> None:
    told: list[tuple[str, set[str]]] = []
    watcher = NamedWatcher(lambda cluster, found: told.append((cluster, set(found))))
    watcher.replace("alpha", [named("a")])
    watcher.changed("alpha", named("b"))
    watcher.deleted("alpha", named("a"))
    assert told == [("alpha", {"a"}), ("alpha", {"a", "b"}), ("alpha", {"b"})]


def test_a_pod_that_was_deleted_is_said_to_be() -> None:
    workloads = Mock()
    watcher = WorkloadPodWatcher(workloads)
    watcher.changed("alpha", named("a"))
    watcher.deleted("alpha", named("a"))
    watcher.replace("alpha", [named("b")])
    assert workloads.see_pod.call_args_list == [
        call("alpha", named("a")),
        call("alpha", named("a"), is_removed=True),
    ]
    workloads.replace_pods.assert_called_once_with("alpha", [named("b")])


def test_a_record_that_was_deleted_is_said_to_be() -> None:
    workloads = Mock()
    watcher = WorkloadRecordWatcher(workloads)
    watcher.changed("alpha", named("a"))
    watcher.deleted("alpha", named("a"))
    watcher.replace("alpha", [named("b")])
    assert workloads.see_record.call_args_list == [
        call("alpha", named("a")),
        call("alpha", named("a"), is_removed=True),
    ]
    workloads.replace_records.assert_called_once_with("alpha", [named("b")])
