"""Trees of power as messages: what is published says what was grown, and nothing else is taken."""

import struct
from base64 import b64encode
from collections.abc import Callable

import numpy as np
import pytest
from coplace.v1.prediction_pb2 import PowerTreesChosen, PowerTreesPublished
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from coplace_client.errors import RejectedError
from services.prediction.power_trees import Growth, train_forests
from services.prediction.tree_versions import GROWTH, grow_power_trees
from shared.catalogue.codec import MAX_MESSAGE_BYTES
from shared.catalogue.contents.check import check_contents
from shared.catalogue.digest import model_sha256
from shared.catalogue.payloads.power_trees import (
    MOST_OF_USERS_BYTES,
    chosen_trees,
    trees_of,
    with_models_of_users,
)
from shared.catalogue.payloads.regression_trees import pack
from shared.power_prediction.forests import NEW_USER
from shared.power_prediction.online import JudgedPrediction
from shared.power_prediction.trees import FEATURES, SUBMITTED, TREES_ORIGIN

SMALL = Growth(3, 5, 4, 4, 2, 4, 5)
USERS = [("gold at 2.4 GHz", f"u{n % 3}") for n in range(80)]


def published(seed: int) -> PowerTreesPublished:
    rng = np.random.default_rng(seed)
    rows, log_w = rng.standard_normal((80, len(FEATURES))), rng.standard_normal(80)
    forests = train_forests(USERS, rows, log_w, SMALL, len(SUBMITTED))
    message = PowerTreesPublished(version="power-trees@80", origin=TREES_ORIGIN)
    message.extra.CopyFrom(pack(forests.extra))
    message.boosted.CopyFrom(pack(forests.boosted))
    with_models_of_users(message, list(forests.users.items()))
    return sealed(message)


def sealed(message: PowerTreesPublished) -> PowerTreesPublished:
    message.sha256 = model_sha256(message)
    return message


@settings(max_examples=5, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_rows_reach_the_same_leaves_as_in_what_was_grown(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, log_w = rng.standard_normal((80, len(FEATURES))), rng.standard_normal(80)
    grew = train_forests(USERS, rows, log_w, SMALL, len(SUBMITTED))
    trees = trees_of(published(seed))
    # On thresholds themselves, too: rows have 32 bits.
    edges = grew.boosted.threshold.ravel().astype(np.float32)
    asked = np.concatenate([rows, rng.choice(edges, (40, len(FEATURES)))])
    users = [*USERS, *(("gold at 2.4 GHz", "new"),) * 40]
    expected, found = grew.predict(users, asked), trees.forests.predict(users, asked)
    assert found == pytest.approx(expected, rel=1e-6, abs=1e-6)
    assert set(trees.forests.users) == {NEW_USER, *USERS}


def changed(change: Callable[[PowerTreesPublished], object]) -> PowerTreesPublished:
    message = published(1)
    change(message)
    return sealed(message)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda m: m.__setattr__("origin", b"another"), "origin"),
        (lambda m: m.extra.right.__setitem__(0, 0), "children"),
        (lambda m: m.extra.right.__setitem__(0, 4_000_000_000), "children"),
        (lambda m: m.extra.feature.__setitem__(0, len(FEATURES) + 1), "columns"),
        (lambda m: m.users[0].tree.feature.__setitem__(0, len(SUBMITTED) + 1), "columns"),
        (lambda m: m.boosted.value.pop(), "as many"),
        (lambda m: m.boosted.threshold.pop(), "as many"),
        (lambda m: m.boosted.sizes.append(0), "as many"),
        (lambda m: m.boosted.ClearField("sizes"), "as many"),
        (lambda m: m.users.pop(0), "new users"),
    ],
)
def test_what_is_no_trees_of_this_version_is_refused(
    change: Callable[[PowerTreesPublished], object], problem: str
) -> None:
    with pytest.raises(RejectedError, match=problem):
        trees_of(changed(change))


def test_trees_whose_digest_version_or_values_are_wrong_are_refused() -> None:
    message = published(1)
    message.trained_jobs += 1
    with pytest.raises(RejectedError, match="sha256"):
        trees_of(message)
    with pytest.raises(RejectedError, match=r"trees: must be power-trees@9, got power-trees@80"):
        chosen_trees(PowerTreesChosen(version="power-trees@9", trees=published(1)))
    message = changed(lambda m: m.extra.value.__setitem__(0, float("nan")))
    with pytest.raises(RejectedError, match=r"trees\.extra\.value\[0\]: must be a finite number"):
        check_contents(PowerTreesChosen(version=message.version, trees=message, who="prediction"))


@pytest.mark.rest
def test_the_largest_trees_fit_into_a_record_and_the_users_of_most_jobs_have_models() -> None:
    rng = np.random.default_rng(1)
    examples = [
        JudgedPrediction(
            *(n + 1, "gold at 2.4 GHz", 0, 1.0, 1.0, float(np.exp(rng.standard_normal()))),
            is_above=False,
            user=f"{n % 400 if n % 2 else 0:0256d}",
            row=_packed_row(rng.standard_normal(len(FEATURES))),
        )
        for n in range(10_000)
    ]
    message = grow_power_trees(examples)
    chosen = PowerTreesChosen(version=message.version, trees=message, who="prediction")
    # In the changelog of prediction it is text: a third more.
    assert chosen.ByteSize() * 4 / 3 < MAX_MESSAGE_BYTES
    assert sum(each.ByteSize() for each in message.users) <= MOST_OF_USERS_BYTES
    assert [each.user for each in message.users][:2] == ["", f"{0:0256d}"]
    assert GROWTH.extra_depth


def _packed_row(values: NDArray[np.float64]) -> str:
    return b64encode(struct.pack(f"<{len(values)}f", *values)).decode()
