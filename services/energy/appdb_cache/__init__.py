"""The application database in Redis: signatures and coefficients for whoever asks for them."""
