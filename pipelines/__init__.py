"""Shipped studies and figures, and what is made of them: see docs/evaluation.md."""
