"""Trainings inside of trials."""
