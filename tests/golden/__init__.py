"""About 300 answers that do not change unnoticed: ``python -m tests.golden`` writes ``answers.json``."""
