"""Gradient-boosted trees: what the trainers of XGBoost and LightGBM share."""
