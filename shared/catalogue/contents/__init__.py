"""What each field of each event must be, by what it is about."""
