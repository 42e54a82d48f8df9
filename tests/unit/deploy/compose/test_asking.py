"""What the check of the compose file asks over HTTP, of REST over real services in process."""

import asyncio

import pytest

from deploy.compose import asking as module
from deploy.compose.asking import Asking, require_answers, require_names
from deploy.compose.podman import PodmanError
from shared.domain.eamc_policy import Policy
from tests.unit.services.history import made
from tests.unit.services.rest.served import Region, rest_over
from tests.unit.shared.placement.region import T0_US, placement, round_of, submitted


def region() -> Region:
    processor = placement(policy=Policy.BASE)
    round_of(processor, 0, submitted("a", T0_US))
    found = Region(processor)
    found.facts.add("jobs.events", made.submitted("a"))
    found.facts.add("prices.charges", made.charge("a"))
    return found


async def test_a_run_whose_jobs_have_charges_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_WITHIN_S", 0.0)
    async with rest_over(region()) as client:
        asked = Asking(f"http://127.0.0.1:{client.port}")
        await asyncio.to_thread(require_answers, asked, 1)
        with pytest.raises(PodmanError, match="1 of 2 jobs have a charge"):
            await asyncio.to_thread(require_answers, asked, 2)


async def test_a_caller_without_a_token_who_is_answered_is_reported() -> None:
    async with rest_over(region()) as client:
        asked = Asking(f"http://127.0.0.1:{client.port}")
        with pytest.raises(PodmanError, match="without a token is answered by 200"):
            await asyncio.to_thread(require_names, asked)
