"""The auditor: reads topics and the journals of resource managers, and nothing else. To add a
check, write a function of the evidence that yields what is violated, and list it in CHECKS."""

from collections.abc import Callable, Iterator
from typing import Final

from tests.chaos.audit import (
    arrays,
    billing,
    decisions,
    delivery,
    eligibility,
    gangs,
    interactive,
    licences,
    limits,
    money,
    nodes,
    order,
    power,
    rejections,
    reservations,
    rules,
    starts,
    surcharges,
    suspensions,
    wills,
)
from tests.chaos.audit.evidence import Evidence

Check = Callable[[Evidence], Iterator[str]]

CHECKS: Final[tuple[Check, ...]] = (
    delivery.nothing_acknowledged_is_lost,
    delivery.nothing_is_made_of_nothing,
    delivery.nothing_sensible_is_isolated,
    delivery.nothing_is_refused_that_nobody_replaced,
    starts.no_attempt_is_started_twice,
    starts.no_core_is_given_twice,
    starts.nobody_is_beside_one_who_is_to_be_alone,
    power.no_start_breaks_a_cap,
    power.what_exceeds_a_cap_is_asked_to_draw_less,
    suspensions.whoever_an_operator_suspends_is_asked_to_stand_still,
    suspensions.nobody_is_asked_to_run_on_whom_an_operator_suspends,
    suspensions.whoever_is_to_be_put_back_is_asked_to,
    rules.every_decision_is_by_the_policy_in_force,
    rules.nothing_is_done_under_caps_that_was_not_declared,
    rules.coefficients_are_those_that_were_declared,
    money.each_finished_run_has_one_final_charge,
    money.each_price_follows_from_what_was_measured,
    money.each_charge_proves_its_price,
    money.balances_are_the_ledger,
    billing.each_tariff_holds_for_what_is_charged_by_it,
    billing.each_price_follows_from_its_tariff,
    billing.nothing_is_booked_in_a_closed_period,
    billing.no_job_of_an_empty_account_starts,
    billing.each_account_stands_as_the_ledger_says,
    surcharges.each_surcharge_is_a_part_of_the_discount,
    surcharges.each_aggressor_is_whose_job_slowed_the_run_down,
    decisions.every_decision_is_explained,
    decisions.no_job_starts_on_a_lost_cluster,
    decisions.no_start_delays_a_reservation,
    eligibility.no_job_starts_before_it_may,
    eligibility.no_singleton_starts_beside_a_job_of_its_name,
    rejections.no_rejected_job_starts,
    rejections.no_job_is_rejected_that_a_cluster_could_hold,
    rejections.no_job_starts_on_an_undeclared_cluster,
    rejections.no_start_is_where_the_job_may_not_be,
    rejections.every_job_that_waits_knows_the_clusters_that_are_there,
    nodes.no_job_starts_on_a_drained_node,
    reservations.no_start_runs_into_reserved_nodes,
    arrays.each_task_is_one_of_its_array,
    arrays.no_more_tasks_run_at_once_than_may,
    gangs.every_gang_starts_whole,
    gangs.every_gang_runs_whole,
    licences.no_licence_is_given_twice,
    limits.nobody_has_more_than_he_may,
    wills.no_job_starts_that_somebody_cancelled_or_holds,
    wills.no_job_gets_again_what_it_was_refused,
    wills.nothing_starts_where_the_manager_is_silent,
    order.no_job_passes_one_that_needs_no_more,
    order.no_node_is_idle_that_a_job_waits_for,
    interactive.every_interactive_job_is_answered_at_once,
    interactive.nobody_is_rejected_as_late_who_is_not,
    decisions.every_job_ends_or_waits_with_a_reason,
)


def violations(evidence: Evidence) -> list[str]:
    """All that is violated, each with the name of its check."""
    return [
        f"{check.__name__.replace('_', ' ')}: {problem}"
        for check in CHECKS
        for problem in check(evidence)
    ]
