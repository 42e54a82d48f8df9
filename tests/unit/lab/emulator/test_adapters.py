from lab.emulator.adapters import MARKED, envelope_of
from lab.emulator.emulator import Emulator
from lab.emulator.facts import BILLING
from lab.workloads.clusters import clusters
from lab.workloads.generate import built_in
from services.ingest.model import Intake
from shared.catalogue.topics import Topics
from tests.unit.lab.emulator.placer import Placer, play


def test_everything_that_the_emulator_says_passes_ingest_unchanged() -> None:
    emulated = clusters(16)
    outputs, _ = play(Emulator(built_in(2, 60, emulated), emulated, 2), Placer(emulated))
    intake = Intake(Topics())
    said = [published for output in outputs for published in output.events]

    taken = [intake.accept(envelope_of(p.event), p.event.time_s) for p in said]

    traced = [(p, t) for p, t in zip(said, taken, strict=True) if p.event.traceparent]
    assert len(traced) > 200
    assert all(before == after for before, after in traced)
    assert [(t.topic, t.event.id, t.event.key) for t in taken] == [
        (p.topic, p.event.id, p.event.key) for p in said
    ]
    # Emulated runs have one price: their operators declare no tariff.
    assert {p.topic for p in said} == {*MARKED} - {BILLING}
