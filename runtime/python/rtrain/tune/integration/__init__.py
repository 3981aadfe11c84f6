"""Trainings inside of trials."""

__all__: list[str] = []
