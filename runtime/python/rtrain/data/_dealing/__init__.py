"""Computes which rows of an epoch each rank gives out, reads these rows, and stores how far an epoch has come."""
