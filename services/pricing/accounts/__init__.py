"""What each account has spent: a read model of the charges."""
