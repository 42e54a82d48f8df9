"""The predictor of job power beside simpler ones, on real and generated logs."""
