"""The arithmetic, the reading and the state of the rows that a rank gives out in an epoch."""
