"""The documentation site: ``sphinx-build -W --keep-going -n -b html docs docs/_build``."""

import sys
from pathlib import Path

import pbdist

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "extensions"))

project = "pbdist"
author = "The pbdist developers"
project_copyright = "The pbdist developers. Apache-2.0."
version = release = pbdist.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.intersphinx",
    "myst_parser",
    "numpydoc",
    "sphinx_copybutton",
    # Ours, in docs/extensions.
    "command_reference",
    "docstrings",
    "local_inventories",
    "mechanism_tables",
    "public_names",
    "repository_pages",
]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
nitpicky = True
# A type variable has no page, nor have the bases of `Study` and of discrete noise; names of matplotlib, an optional
# package, are imported for type checks alone.
nitpick_ignore = [
    ("py:class", "pbdist.granularity.rules.P"),
    ("py:class", "pbdist.granularity.rules._Known"),
    ("py:class", "pbdist.query.stored.Parts"),
    ("py:class", "pbdist.mechanisms.counts.WholeNoise"),
    ("py:class", "Axes"),
    ("py:class", "Figure"),
]

# The pages are read on GitHub too: plain Markdown, links by path, anchors as GitHub makes them.
myst_heading_anchors = 4

# Docstrings are numpydoc; one in single backticks is a name where there is one, and code elsewhere.
default_role = "soft"
autodoc_member_order = "bysource"
# Libraries of which pbdist has subclasses; the site is made without them.
autodoc_mock_imports = ["dp_accounting", "opacus"]
numpydoc_show_class_members = False
autosummary_generate = False
autodoc_type_aliases = {
    "xr.Dataset": "xarray.core.dataset.Dataset",
    "pd.DataFrame": "pandas.DataFrame",
}
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
maximum_signature_line_length = 88

html_theme = "furo"
html_title = "pbdist"
html_show_sphinx = False
html_static_path = ["static"]
html_css_files = ["pages.css"]
# Apostrophes are primes and quotation marks are code in formulas.
smartquotes = False
# What is copied from a block is the commands alone.
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
