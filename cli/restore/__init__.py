"""After data were replaced: whether they belong together, and what repairs them."""
