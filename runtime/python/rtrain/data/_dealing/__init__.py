"""Which rows of an epoch a rank gives out, when, and what a state says of it."""
