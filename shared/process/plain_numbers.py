"""Numbers of settings and of files that models are read from, as `coplace_client.numbers` has
them."""

from collections.abc import Iterator, Mapping
from decimal import Decimal
from types import NoneType, UnionType
from typing import Any, Final, Union, get_args, get_origin

from pydantic import BaseModel, ValidationInfo, field_validator

from coplace_client.numbers import is_number

_NUMBERS: Final = (int, float, Decimal)


def require_plain_number(model: type[BaseModel], value: Any, info: ValidationInfo) -> Any:
    """Return a field's value before it is validated. Raises ValueError for a text that a number is
    made of in another way than by the digits 0 to 9."""
    kind = model.model_fields[info.field_name or ""].annotation
    for text in _texts_of_numbers(kind, value):
        if not is_number(text):
            raise ValueError("Input should be a finite number in the digits 0 to 9")
    return value


def _texts_of_numbers(kind: Any, value: Any) -> Iterator[str]:
    """The texts in a value that can be nothing but numbers."""
    origin, within = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        kinds = [each for each in within if each is not NoneType]
        if len(kinds) == 1 or all(each in _NUMBERS for each in kinds):
            yield from _texts_of_numbers(kinds[0], value)
    elif kind in _NUMBERS and isinstance(value, str):
        yield value
    elif within and isinstance(value, list | tuple):
        for each in value:
            yield from _texts_of_numbers(within[0], each)
    elif within and isinstance(value, Mapping):
        for each in value.values():
            yield from _texts_of_numbers(within[-1], each)


class PlainModel(BaseModel):
    """A model of what people write: a text is no number unless it is one in the digits 0 to 9."""

    @field_validator("*", mode="before")
    @classmethod
    def _in_plain_digits(cls, value: Any, info: ValidationInfo) -> Any:
        return require_plain_number(cls, value, info)
