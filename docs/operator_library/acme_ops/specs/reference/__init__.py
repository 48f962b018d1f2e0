"""The NumPy functions that the specs name."""
