"""A store of packed objects is a dictionary that takes less memory."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.kubernetes import packed
from shared.kubernetes.api import Trim
from shared.kubernetes.names import GRANT
from shared.kubernetes.nodes import trimmed_node
from shared.kubernetes.other_pods import trimmed_other_pod
from shared.kubernetes.packed import PackedStore, pack, unpack
from shared.kubernetes.pods import trimmed_pod
from tests.support.kubernetes_api import EPOCH
from tests.unit.shared.kubernetes.objects import node

_CONTAINER = {"name": "main", "resources": {"requests": {"cpu": "1500m", "memory": "1Gi"}}}
_READY = {"type": "Ready", "status": "True", "lastTransitionTime": EPOCH}
_POD: Any = {
    "metadata": {"name": "a", "namespace": "physics", "uid": "1", "labels": {GRANT: "1"}},
    "spec": {"nodeName": "n1", "containers": [_CONTAINER]},
    "status": {"phase": "Running", "conditions": [_READY]},
}


@pytest.mark.parametrize(
    ("trim", "found"), [(trimmed_other_pod, _POD), (trimmed_pod, _POD), (trimmed_node, node("n1"))]
)
def test_what_is_kept_of_an_object_is_the_same_once_it_was_packed(trim: Trim, found: Any) -> None:
    kept = trim(found)
    assert kept
    assert unpack(pack(kept)) == kept


_FIELDS = st.dictionaries(st.text(max_size=3), st.integers(-9, 9) | st.lists(st.none()), min_size=1)


@given(steps=st.lists(st.tuples(st.integers(0, 5), st.none() | _FIELDS)))
def test_a_store_has_what_a_dictionary_would(steps: list[tuple[int, Any]]) -> None:
    """Of six objects four at most are at hand."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packed, "_AT_HAND", 4)
        store, plain = PackedStore[int](), dict[int, Any]()
        for key, fields in steps:
            if fields is None:
                assert store.pop(key) == plain.pop(key, None)
            else:
                store.put(key, fields)
                plain[key] = fields
            assert {each: store.get(each) for each in store} == plain
            assert len(store) == len(plain)
            assert store.get(6) is None
