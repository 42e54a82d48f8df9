"""`coplace webhook`, and what the how-to prints to be pasted."""

import asyncio
import importlib.util
import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
from aiohttp.test_utils import TestServer as Server
from jsonschema import Draft202012Validator
from standardwebhooks import WebhookVerificationError
from typer.testing import CliRunner

from cli.main import app
from cli.processes import Processes
from services.rest.calls import Services
from services.rest.openapi import document
from services.rest.routes import routes
from services.webhooks.alerts import alerts_app
from services.webhooks.signing import secret_text, signed_headers
from services.webhooks.writing import TopicWriter
from shared.catalogue.webhook_types import TYPES
from shared.process.clock import now_us
from tests.support.snippets import HOW_TO, blocks, write_programs
from tests.unit.services.history.made import CODEC, finished, started, submitted
from tests.unit.services.rest.served import listening
from tests.unit.services.webhooks.made import KEY, LIMITS, RETENTION, URL, World, allocated
from tests.unit.services.webhooks.test_alerts import POSTED, inbox
from tests.unit.services.webhooks.test_service import Asked, _served

PAGE: Final = HOW_TO / "webhooks.md"


async def said(asked: Asked, *words: str, fails: bool = False) -> Any:
    """What a command says."""
    told = ["webhook", *words, "--webhooks", asked.address]
    found = await asyncio.to_thread(CliRunner().invoke, app, told)
    assert bool(found.exit_code) is fails, found.output
    return found


async def documents(asked: Asked, *words: str, fails: bool = False) -> Any:
    """What a command says to programs."""
    return json.loads((await said(asked, *words, "--output", "json", fails=fails)).stdout)


async def test_commands_register_look_after_and_remove(tmp_path: Path) -> None:
    async with _served(tmp_path, None) as asked:
        world = asked.world
        asked.service._deliverer._post = world.posted
        text = (await said(asked, "add", URL, "--account", "physics")).stdout
        assert re.search(r"^\| secret +\| whsec_\S{44} ", text, re.MULTILINE)
        made = await documents(asked, "add", URL, "--user", "ada", "--type", "job.ended")
        name = made["webhook"]["webhookId"]
        assert made["webhook"]["types"] == ["job.ended"]
        shown = (await said(asked, "list")).stdout
        assert re.search(rf"^\| {name} \| user ada ", shown, re.MULTILINE)
        world.registry.disable(name, "it failed", world.now)
        world.tell("jobs.events", submitted("j1"), finished("j1"))
        [failed] = (await documents(asked, "failed", name))["deliveries"]
        assert failed["lastError"] == "the webhook is disabled"
        world.posted.statuses = [503]
        refused = await documents(asked, "test", name, fails=True)
        assert (refused["delivered"], refused["status"]) == (False, 503)
        world.posted.statuses = [200]
        assert (await documents(asked, "test", name))["delivered"]
        assert await documents(asked, "retry", name, failed["deliveryId"]) == {"deliveries": "1"}
        rotated = await documents(asked, "rotate-secret", name)
        assert rotated["secret"] == secret_text(KEY.of(name, 2))
        await said(asked, "remove", name)
        [left] = (await documents(asked, "list"))["webhooks"]
        assert left["account"] == "physics"


async def test_commands_print_the_documents_of_rest(tmp_path: Path) -> None:
    async with _served(tmp_path, None) as asked:
        name = (await documents(asked, "add", URL, "--region"))["webhook"]["webhookId"]
        asked.world.registry.disable(name, "it failed", asked.world.now)
        asked.world.tell("jobs.events", submitted("j1"), started("j1"), finished("j1"))
        services = Services({"coplace.v1.WebhookService": asked.address}, None, 30.0)
        async with listening(services) as client:
            listed = (await client.get("/v1/webhooks?pageSize=50")).json
            path = f"/v1/webhooks/failed?webhookId={name}&pageSize=1"
            failed = (await client.get(path)).json
        await services.close()
        assert await documents(asked, "list") == listed
        assert await documents(asked, "failed", name, "--limit", "1") == failed
        assert (
            "there are more: --page" in (await said(asked, "failed", name, "--limit", "1")).stderr
        )


async def test_what_is_wrong_is_said_in_one_line_with_what_to_do(tmp_path: Path) -> None:
    async with _served(tmp_path, None) as asked:
        for words, problem in (
            (("add", "http://example.org/", "--user", "ada"), "must begin with https://"),
            (("add", URL), "name one of user, account and region"),
            (("add", URL, "--user", "ada", "--type", "alert"), "ask for that"),
            (("remove", "wh_1"), "`coplace webhook list` shows yours"),
        ):
            found = await said(asked, *words, fails=True)
            assert problem in " ".join(found.output.split()), found.output


def test_topics_are_read_anew_and_nothing_is_delivered_twice(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.add("own", user="ada")
    world.add("money", account="physics", who="olga")
    world.tell("billing", allocated("physics", "100"))
    world.tell("jobs.events", submitted("j1"), finished("j1"))
    before = world.rows()
    words = ["webhook", "read-anew", "--database", str(world.file)]
    found = CliRunner().invoke(app, words)
    assert found.exit_code == 0, found.output
    again = TopicWriter(world.database, CODEC, LIMITS, world.now_us)
    assert again.positions() == {}
    for place in world.log.records:
        again.begin(place, b"another topic...", 0)
    world.apply()
    assert world.rows() == before
    missing = CliRunner().invoke(app, [*words[:-1], str(tmp_path / "none.db")])
    assert missing.exit_code == 2


async def test_what_is_older_than_kept_rows_is_posted_again_with_the_same_id(
    tmp_path: Path,
) -> None:
    world = World(tmp_path)
    world.add("own", user="ada")
    world.tell("jobs.events", submitted("j1"), finished("j1"))
    await world.deliver()
    world.now += RETENTION.delivered_us + 1
    world.queue.remove_old(world.now, RETENTION)
    words = ["webhook", "read-anew", "--database", str(world.file)]
    found = CliRunner().invoke(app, words)
    assert "posted again, with the same id" in found.output
    for place in world.log.records:
        world.writer.begin(place, b"another topic...", 0)
    world.apply()
    await world.deliver()
    assert len(world.posted.ids) == 2
    assert len(set(world.posted.ids)) == 1


def test_the_signature_is_verified_as_the_how_to_prints_it(tmp_path: Path) -> None:
    write_programs(PAGE, tmp_path)
    spec = importlib.util.spec_from_file_location("verify", tmp_path / "verify.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    body, secret = b'{"type":"job.ended"}', KEY.of("wh_1", 1)
    headers = dict(signed_headers("msg_1", now_us(), body, [secret]))
    assert module.take(secret_text(secret), headers, body) == {"type": "job.ended"}
    for wrong in (b'{"type":"job.started"}', b""):
        with pytest.raises(WebhookVerificationError):
            module.take(secret_text(secret), headers, wrong)


def test_the_signature_is_that_of_the_lines_without_a_library() -> None:
    [lines] = [block.text for block in blocks(PAGE) if "openssl" in block.text]
    body, secret = b'{"type":"job.ended"}', KEY.of("wh_1", 1)
    headers = signed_headers("msg_1", now_us(), body, [secret])
    given = {
        "SECRET": secret_text(secret),
        "ID": headers["webhook-id"],
        "TIMESTAMP": headers["webhook-timestamp"],
        "BODY": body.decode(),
    }
    result = subprocess.run(
        ["bash", "-euc", lines], env=os.environ | given, capture_output=True, text=True, check=True
    )
    assert f"v1,{result.stdout.strip()}" == headers["webhook-signature"]


async def test_the_lines_for_curl_work_as_they_are(tmp_path: Path) -> None:
    lines = [
        line
        for block in blocks(PAGE)
        for line in block.text.splitlines()
        if line.startswith("curl")
    ]
    assert len(lines) == 2
    (tmp_path / "alert.json").write_text(json.dumps(POSTED))
    async with (
        _served(tmp_path, None) as asked,
        Server(alerts_app(inbox(asked.world), lambda: "right")) as alerts,
    ):
        services = Services({"coplace.v1.WebhookService": asked.address}, None, 30.0)
        async with listening(services) as client:
            given = {
                "COPLACE_REST_URL": f"http://127.0.0.1:{client.port}",
                "WEBHOOKS": f"http://127.0.0.1:{alerts.port}",
                "TOKEN": "right",
            }
            found = []
            for line in lines:
                process = await asyncio.create_subprocess_exec(
                    *("bash", "-euc", f"cd {tmp_path}; {line} --silent --fail"),
                    env=os.environ | given,
                    stdout=subprocess.PIPE,
                )
                out, _ = await process.communicate()
                assert process.returncode == 0, line
                found.append(json.loads(out))
        await services.close()
    assert found[0]["webhook"]["url"] == URL
    assert found[1] == {"alerts": 1}


def test_openapi_describes_what_is_posted() -> None:
    described = document(routes())
    assert described["webhooks"].keys() == TYPES.keys()
    for name, each in described["webhooks"].items():
        schema = each["post"]["requestBody"]["content"]["application/json"]["schema"]
        assert schema["properties"]["type"] == {"const": name}
        data = schema["properties"]["data"]["$ref"].rpartition("/")[2]
        assert data in described["components"]["schemas"]


def test_what_is_posted_is_as_openapi_describes_it(tmp_path: Path) -> None:
    world, described = World(tmp_path), document(routes())
    world.add("all", region=True, who="olga")
    world.tell("billing", allocated("physics", "1"))
    world.tell("jobs.events", submitted("j1"), started("j1"), finished("j1"))
    inbox(world).take(json.dumps(POSTED).encode())
    for row in world.rows():
        post = described["webhooks"][row.type]["post"]
        schema = post["requestBody"]["content"]["application/json"]["schema"]
        whole = {**schema, "components": described["components"]}
        Draft202012Validator(whole).validate(json.loads(row.body))
    assert world.types() == ["alert", "job.ended", "job.started"]


def test_coplace_up_starts_it_where_it_is_asked_for(tmp_path: Path) -> None:
    database = tmp_path / "webhooks.db"
    secure = {"COPLACE_GRPC_CERT_FILE": "of webhooks"}
    found = Processes(
        *(tmp_path, {}), traced=False, webhooks=database, credentials=lambda _name: secure
    )
    [program] = [each for each in found.services() if each.name == "webhooks"]
    assert program.env["COPLACE_WEBHOOKS_DATABASE"] == str(database)
    address = found.addresses["COPLACE_WEBHOOKS_ADDRESS"]
    assert address == f"127.0.0.1:{program.env['COPLACE_WEBHOOKS_PORT']}"
    token = found.token_addresses["COPLACE_WEBHOOKS_TOKEN_ADDRESS"]
    assert token == f"127.0.0.1:{program.env['COPLACE_GRPC_TOKEN_PORT']}"
    without = Processes(tmp_path, {}, traced=False)
    assert "webhooks" not in {each.name for each in without.services()}
    assert "COPLACE_WEBHOOKS_ADDRESS" not in without.addresses
