"""What stands beside a resource manager or on its nodes speaks to Coplace with these."""
