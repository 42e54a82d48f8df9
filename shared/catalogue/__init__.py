"""What messages are: envelopes, topics and bytes, and what each of their fields must be."""
