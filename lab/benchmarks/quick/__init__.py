"""What a job and a round cost, in instructions, beside figures of before."""
