import pytest

from lab.emulator import physics


def test_no_drawn_application_breaks_a_rule_and_most_have_their_least_energy_inside_the_range(
    capsys: pytest.CaptureFixture[str],
) -> None:
    physics.main(1000)

    said = capsys.readouterr().out
    assert "2,000 pairs of 1,000 drawn applications" in said
    assert "longer than by the clock: 0\n" in said
    assert "faster at a lower P-state: 0\n" in said
    assert "more power at a lower P-state: 0\n" in said
    assert "published: 14 of 16, 87.5 %" in said


def test_the_share_with_least_energy_inside_is_near_the_published_one() -> None:
    inside, pairs = physics.PUBLISHED_INSIDE

    found = physics.physics_of(160, first_seed=2001)

    assert found.inside_share == pytest.approx(inside / pairs, abs=0.06)
