"""Operators of Acme for hyper_parallel."""
