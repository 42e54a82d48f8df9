"""What neighbours take off by each price model."""

from typing import Any

import pytest
from coplace.v1.tariffs_pb2 import PRICE_MODEL_RATE_FUNCTION, PriceModel

from coplace_client.errors import RejectedError
from shared.catalogue.payloads.tariffs import NAMED_FUNCTIONS, function_of


def test_every_model_is_priced_by_its_name_or_by_points() -> None:
    assert {0, PRICE_MODEL_RATE_FUNCTION, *NAMED_FUNCTIONS} == {*PriceModel.values()}


def test_a_model_of_a_later_release_is_refused_and_not_taken_for_another() -> None:
    later: Any = 99
    with pytest.raises(RejectedError, match="model: must have a rate function here, got 99"):
        function_of(later, [])
