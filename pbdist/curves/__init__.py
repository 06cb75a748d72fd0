"""Rényi divergences, trade-off curves and total variation; numpy and scipy only."""
