"""The directives ``mechanism-table``, ``mechanism-classes`` and ``column-table``: what mechanisms declare."""

from collections.abc import Sequence
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

import pbdist
from pbdist.mechanisms import MECHANISMS, Form, Pair, Parameter, parameters_of
from pbdist.mechanisms.columns import known_columns


def _example(kind: type[Pair]) -> Pair:
    """Return a mechanism of a kind, by the examples of its parameters."""
    listed: list[Pair] = []
    named: dict[str, Any] = {}
    for name, one in parameters_of(kind).items():
        if one.domain.form is Form.MECHANISMS:
            listed += one.examples[0]
        elif one.required:
            named[name] = one.examples[0]
    return kind(*listed, **named)


def _parameter(name: str, one: Parameter) -> nodes.list_item:
    text = f": {one.described}{'' if one.required else ' (optional)'}"
    return nodes.list_item("", nodes.paragraph("", "", nodes.literal(name, name), nodes.Text(text)))


def _literal(text: str) -> nodes.paragraph:
    return nodes.paragraph("", "", nodes.literal(text, text))


def _table(head: Sequence[str], widths: Sequence[int], rows: Sequence[Sequence[nodes.Node]]) -> nodes.table:
    group = nodes.tgroup("", cols=len(head))
    group += [nodes.colspec("", colwidth=width) for width in widths]
    titles = [nodes.entry("", nodes.paragraph("", text)) for text in head]
    group += nodes.thead("", nodes.row("", *titles))
    group += nodes.tbody("", *(nodes.row("", *(nodes.entry("", cell) for cell in row)) for row in rows))
    return nodes.table("", group)


class MechanismTable(SphinxDirective):
    """A table of the mechanisms that a study can name: what each does, its parameters, and for which neighbours."""

    def run(self) -> list[nodes.Node]:
        """Return the table."""
        rows = []
        for name, kind in MECHANISMS.items():
            if kind.in_studies:
                items = [_parameter(*one) for one in parameters_of(kind).items()]
                neighbours = _example(kind).adjacency.value
                about = nodes.container("", nodes.paragraph("", kind.does), nodes.bullet_list("", *items))
                rows.append((_literal(name), about, nodes.paragraph("", neighbours)))
        return [_table(("kind", "what happens in a round, and the parameters", "neighbours"), (20, 65, 15), rows)]


class ColumnTable(SphinxDirective):
    """A table of the columns that describe the cells of a store."""

    def run(self) -> list[nodes.Node]:
        """Return the table."""
        rows = [
            (
                _literal(name),
                nodes.paragraph("", "text" if column.text else "number"),
                nodes.paragraph("", column.what),
            )
            for name, column in known_columns().items()
        ]
        return [_table(("column", "type", "what"), (15, 10, 75), rows)]


class MechanismClasses(SphinxDirective):
    """The docstrings of all public mechanisms, and of their other constructors."""

    def run(self) -> list[nodes.Node]:
        """Return the descriptions."""
        lines: list[str] = []
        for name, kind in MECHANISMS.items():
            if name in pbdist.__all__:
                others = [one for one in vars(kind) if one.startswith("from_")]
                lines += [
                    f".. autoclass:: pbdist.{name}",
                    *([f"   :members: {', '.join(others)}"] if others else []),
                    "",
                ]
        found = nodes.container()
        self.state.nested_parse(StringList(lines, source="mechanism-classes"), self.content_offset, found)
        return found.children


def setup(app: Sphinx) -> dict[str, bool]:
    """Add the directives."""
    app.add_directive("mechanism-table", MechanismTable)
    app.add_directive("mechanism-classes", MechanismClasses)
    app.add_directive("column-table", ColumnTable)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
