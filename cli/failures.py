"""What can go wrong with a command through no fault of ours, told in one line."""

from typing import Any, Final

import grpc
import typer
from aiokafka.errors import KafkaError as AsyncKafkaError
from kafka.errors import KafkaError
from redis.exceptions import RedisError
from typer.core import TyperGroup

from cli.demo.accounts import WrongAccountsError
from cli.kafka_topics import StalledRunError
from deploy.local.errors import LocalServersError
from shared.domain.errors import UnusableError
from shared.runtime.settings import settings

_TOLD: Final = (
    *(UnusableError, OSError, LocalServersError, StalledRunError, WrongAccountsError),
    *(KafkaError, AsyncKafkaError, RedisError, grpc.RpcError),
)


class TellingGroup(TyperGroup):
    """Commands that end with one line and exit status 1 for what a user can mend; whatever else
    they raise is a bug, and shows its traceback."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As the base class. Bytes that are no UTF-8 fit into no message and no output."""
        for each in args:
            if not _is_text(each):
                shown = each.encode(errors="backslashreplace").decode()
                raise typer.BadParameter(f"{shown} is no UTF-8 text")
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """As the base class, which ends silently where nobody reads on, as behind `| head`."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise
        except _TOLD as error:
            typer.echo(f"error: {line_of(error)}", err=True)
            raise typer.Exit(1) from error


def _is_text(word: str) -> bool:
    try:
        word.encode()
    except UnicodeEncodeError:
        return False
    return True


def line_of(error: BaseException) -> str:
    """What happened and what to do, in one line."""
    return " ".join(_text_of(error).split())


def _text_of(error: BaseException) -> str:
    if isinstance(error, KafkaError | AsyncKafkaError):
        where = f"Kafka at {settings().kafka_bootstrap}: {_named(error)}"
        return f"{where}: is it up, with this deployment's topics, at COPLACE_KAFKA_BOOTSTRAP?"
    if isinstance(error, RedisError):
        return f"Redis: {_named(error)}: is it up at COPLACE_REDIS_URL?"
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return _named(error)


def _named(error: BaseException) -> str:
    return str(error) or type(error).__name__
