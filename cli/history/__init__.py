"""`coplace history`: what was, as the history service has it; and its database, built anew."""
