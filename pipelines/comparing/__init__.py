"""What `pipelines/comparison.py` compares, how it judges, and the page it writes."""
