"""What placement is informed of, it folds."""

from shared.catalogue.options import ranks
from shared.catalogue.policy_settings import PolicySettings
from shared.placement.processor.layers import Layers


def test_every_message_with_a_rank_has_a_fold() -> None:
    """One without would end the process when it comes."""
    folded = {each.DESCRIPTOR.full_name for each in Layers({}, PolicySettings(), 7.0).folds}
    assert folded == {*ranks()}, "register a fold in the table of a layer.py"
