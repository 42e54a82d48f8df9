"""Dead letters: listed, shown and replayed."""
