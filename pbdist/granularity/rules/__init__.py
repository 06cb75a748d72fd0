"""The rules of composition of Guerra-Balboa et al. 2024, each with its hypotheses checked."""
