"""Neighbourhoods of databases, partitions of them, and the rules of composition for both."""
