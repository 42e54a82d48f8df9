"""What placement keeps: job records, allocations, node states, models, the policy in force."""
