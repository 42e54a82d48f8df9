"""Settings from environment variables, and what is wrong with one by the variable's name."""

import re
import sys
from collections.abc import Callable, Iterator
from typing import Any, Final

from pydantic import ValidationError, ValidationInfo, field_validator
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, SettingsConfigDict
from pydantic_settings.exceptions import SettingsError

from coplace_client.errors import WrongSettingsError
from shared.process.plain_numbers import require_plain_number

# A value is shown so far: enough to recognise it.
_SHOWN: Final = 80
_PASSWORD: Final = re.compile(r"//[^/@]*@")


class EnvironmentSettings(BaseSettings):
    """Settings that a process reads from its environment. Raises WrongSettingsError."""

    # A traceback would print them all, passwords too, where one is wrong.
    model_config = SettingsConfigDict(hide_input_in_errors=True)

    @field_validator("*", mode="before")
    @classmethod
    def _in_plain_digits(cls, value: Any, info: ValidationInfo) -> Any:
        return require_plain_number(cls, value, info)

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            prefix = self.model_config.get("env_prefix", "")
            problems = "; ".join(_problems(error, prefix))
            raise WrongSettingsError(f"{problems}: correct it, or leave it out") from error
        except SettingsError as error:
            raise WrongSettingsError(str(error)) from error


def _problems(error: ValidationError, prefix: str) -> Iterator[str]:
    for each in error.errors(include_url=False):
        problem = each["msg"].removeprefix("Value error, ")
        name = f"{prefix}{'_'.join(str(part) for part in each['loc'])}".upper()
        # What is wrong with several together names them itself.
        yield f"{name}={_shown(each)}: {problem}" if each["loc"] else f"{name}*: {problem}"


def _shown(found: ErrorDetails) -> str:
    text = _PASSWORD.sub("//***@", str(found["input"]))
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def run(main: Callable[[], None]) -> None:
    """Run a process's main function; settings that cannot work end it with one line."""
    try:
        main()
    except WrongSettingsError as error:
        sys.exit(f"error: {error}")
