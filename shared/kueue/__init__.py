"""What processes that speak to Kueue have in common."""
