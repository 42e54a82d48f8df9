"""The settings that placement decides by, read from COPLACE_PLACEMENT_* environment variables.

A planner reads the same variables, so that its own fold of the inputs yields the same state.
"""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, create_model
from pydantic_settings import NoDecode, SettingsConfigDict

from coplace_client.errors import RejectedError
from shared.catalogue.policy_settings import PREFIX, SETTINGS, PolicySettings
from shared.catalogue.setting import DeclaredSetting
from shared.process.environment import EnvironmentSettings


def _of_variable(setting: DeclaredSetting) -> Any:
    """Return what pydantic reads: numbers and words as it does, and bounds as of what is
    declared."""

    def parse(value: Any) -> Any:
        return _checked(setting.parse, value) if isinstance(value, str) else value

    def require(value: Any) -> Any:
        _checked(setting.require, value)
        return value

    if setting.is_list:
        written = PlainSerializer(setting.write)
        return Annotated[setting.kind, NoDecode, BeforeValidator(parse), written]
    return Annotated[setting.kind, AfterValidator(require)]


def _checked(check: Any, value: Any) -> Any:
    try:
        return check(value)
    except RejectedError as error:
        raise ValueError(error.problem) from None


_FIELDS: Final[Mapping[str, Any]] = {
    name: (_of_variable(each), Field(each.default, description=each.about))
    for name, each in SETTINGS.items()
}
# Type checkers cannot know its fields, and pydantic's would believe that it has none:
# `RuleSettings.rules` has their types.
_create: Callable[..., Any] = create_model
_Variables: Any = _create("_Variables", __base__=EnvironmentSettings, **_FIELDS)


class RuleSettings(_Variables):  # type: ignore[misc]
    """Raises WrongSettingsError naming the variable."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True)

    remember_days: float = Field(
        7.0, gt=0, description="How long after its end came copies of a job's events are recognised"
    )

    @property
    def rules(self) -> PolicySettings:
        """Return all settings but how long ended jobs are remembered."""
        return PolicySettings(**{name: getattr(self, name) for name in SETTINGS})
