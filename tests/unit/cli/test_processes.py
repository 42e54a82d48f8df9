"""Which services share a process, and where each answers."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from cli.processes import EVERY, TOGETHER, Processes


def test_every_service_of_one_machine_is_in_one_process_and_keeps_its_ports(
    tmp_path: Path,
) -> None:
    assert sorted(one for members in TOGETHER.values() for one in members) == sorted(EVERY)
    asked: list[str] = []

    def ports(names: Sequence[str]) -> Mapping[str, int]:
        asked.extend(names)
        return {name: 40_000 + place for place, name in enumerate(names)}

    found = Processes(
        *(tmp_path, {}),
        modules=EVERY,
        together=TOGETHER,
        traced=False,
        planned=True,
        choose_ports=ports,
    )
    programs = {each.name: each for each in found.services()}
    assert set(programs) == {*TOGETHER, "planner"}
    assert programs["answers"].argv[1:] == ["-m", "cli.together", "answers", "energy-api", "watch"]
    assert programs["placement"].argv[1:] == ["-m", "services.placement"]
    own = programs["answers"].env
    assert found.watch_address == f"127.0.0.1:{own['COPLACE_WATCH_PORT']}"
    assert found.energy_address == f"127.0.0.1:{own['COPLACE_ENERGY_API_PORT']}"
    assert "energy-api gRPC" in asked
    assert len({each.ready_url for each in programs.values()}) == len(programs)


def test_a_service_whose_companions_do_not_run_is_a_process_under_the_shared_name(
    tmp_path: Path,
) -> None:
    some = {"watch": EVERY["watch"]}
    [program] = Processes(tmp_path, {}, modules=some, together=TOGETHER, traced=False).services()
    assert (program.name, program.argv[1:]) == ("answers", ["-m", EVERY["watch"]])


def test_alone_each_service_is_a_process(tmp_path: Path) -> None:
    found = Processes(tmp_path, {}, modules=EVERY, traced=False)
    assert [each.name for each in found.services()] == list(EVERY)
    assert all(each.argv[2].startswith("services.") for each in found.services())
