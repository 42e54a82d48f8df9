"""Look-ahead and its ablations against PriorityInc-V, over models and windows of logs."""
