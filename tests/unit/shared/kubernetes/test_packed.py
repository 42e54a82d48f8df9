"""A store of packed objects is a dictionary that takes less memory."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.kubernetes import packed
from shared.kubernetes.packed import PackedStore

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
