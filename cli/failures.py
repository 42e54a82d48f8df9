"""What can go wrong with a command through no fault of ours, reported in one line."""

import sys
from typing import Any, Final, NoReturn

import typer
from typer.core import TyperGroup

from cli.extras import not_installed
from cli.typed_numbers import require_plain_numbers

# Errors that a user can repair, by module. An error of a module that nobody has imported
# is raised by nobody: clients of all servers would take half a second.
_TOLD: Final = {
    "aiokafka.errors": "KafkaError",
    "lab.demo.accounts": "WrongAccountsError",
    "cli.kafka_topics": "StalledRunError",
    "deploy.local.errors": "LocalServersError",
    "grpc": "RpcError",
    "kafka.errors": "KafkaError",
    "redis.exceptions": "RedisError",
    "coplace_client.errors": "UnusableError",
}
_OF_KAFKA: Final = ("aiokafka.errors", "kafka.errors")


class ReportingGroup(TyperGroup):
    """Commands that end with one line and exit status 1 for what a user can repair, or with the
    `exit_code` of the error; whatever else they raise is a bug, and shows its traceback."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse as the base class does. Bytes that are not UTF-8 fit into no message and no
        output."""
        for each in args:
            if not _is_text(each):
                shown = each.encode(errors="backslashreplace").decode()
                raise typer.BadParameter(f"{shown} is not UTF-8")
        return super().parse_args(ctx, args)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command as the base class does, with numbers in the digits 0 to 9 alone."""
        found = super().get_command(ctx, cmd_name)
        if found is not None:
            require_plain_numbers(found)
        return found

    def invoke(self, ctx: Any) -> Any:
        """Invoke as the base class does, which ends silently where nobody reads on, as behind `|
        head`."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise
        except ModuleNotFoundError as error:
            self._tell(not_installed(error))
        except Exception as error:
            if not is_reported(error):
                raise
            self._tell(error)

    @staticmethod
    def _tell(error: Exception) -> NoReturn:
        typer.echo(f"error: {line_of(error)}", err=True)
        raise typer.Exit(getattr(error, "exit_code", 1)) from error


def is_reported(error: Exception) -> bool:
    """Return whether an error is reported in one line: others are bugs."""
    return isinstance(error, (OSError, *_errors(*_TOLD)))


def _errors(*modules: str) -> tuple[type[Exception], ...]:
    """Return the errors that are reported in one line, of the modules that were imported."""
    found = (getattr(sys.modules.get(name), _TOLD[name], None) for name in modules)
    return tuple(error for error in found if error)


def _is_text(word: str) -> bool:
    try:
        word.encode()
    except UnicodeEncodeError:
        return False
    return True


def line_of(error: BaseException) -> str:
    """Return what happened and what to do, in one line."""
    return " ".join(_text_of(error).split())


def _text_of(error: BaseException) -> str:
    if isinstance(error, _errors(*_OF_KAFKA)):
        from shared.process.refusals import acl_problem
        from shared.process.settings import settings

        if refused := acl_problem(settings(), error):
            return refused
        where = f"Kafka at {settings().kafka_bootstrap}: {_named(error)}"
        return f"{where}: is it up, with this deployment's topics, at COPLACE_KAFKA_BOOTSTRAP?"
    if isinstance(error, _errors("redis.exceptions")):
        from shared.process.refusals import redis_problem
        from shared.process.settings import settings

        where = f"Redis: {_named(error)}: is it up at COPLACE_REDIS_URL?"
        return redis_problem(settings(), error) or where
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return _named(error)


def _named(error: BaseException) -> str:
    return str(error) or type(error).__name__
