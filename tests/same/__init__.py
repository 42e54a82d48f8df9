"""What must stay equal: decisions and charges, by their hashes."""
