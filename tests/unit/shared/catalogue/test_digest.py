"""A published model is recognised by the SHA-256 of its content."""

import pytest
from coplace.v1.prediction_pb2 import PowerModelPublished

from coplace_client.errors import RejectedError
from shared.catalogue.digest import model_sha256, require_sha256


def test_the_digest_does_not_depend_on_itself_nor_on_the_order_of_a_map() -> None:
    one = PowerModelPublished(version="power@1", fallback_power_w={"a": 1.0, "b": 2.0})
    other = PowerModelPublished(version="power@1", fallback_power_w={"b": 2.0, "a": 1.0})
    other.sha256 = model_sha256(one)
    assert model_sha256(other) == model_sha256(one)
    require_sha256(other)


def test_a_digest_of_other_content_is_rejected_with_the_right_one() -> None:
    model = PowerModelPublished(version="power@1", sha256=b"no")
    with pytest.raises(RejectedError, match=model_sha256(model).hex()):
        require_sha256(model)
