"""Command lines that a reader can copy."""

import shlex

from pbdist.report.pages.document import plain


def command(*words: str) -> str:
    """Return words as one command line; a word that holds anything unseen is named, not quoted."""
    return " ".join(shlex.quote(word) if word.isprintable() else shlex.quote(plain(word)) for word in words)
