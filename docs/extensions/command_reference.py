"""The directive ``command-reference``: every command and option of `pbdist`, as ``--help`` has them."""

import click
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from pbdist.cli.entry import commands
from pbdist.cli.output import EXIT_CODES
from pbdist.cli.parser import Command


class CommandReference(SphinxDirective):
    """Sections on all commands: what each does, its usage, its arguments and options."""

    def run(self) -> list[nodes.Node]:
        """Return the sections."""
        codes = EXIT_CODES.removeprefix("\b\n")
        with click.Context(commands, info_name="pbdist") as whole:
            sections = [
                self._section(click.Context(one, info_name=name, parent=whole), one)
                for name, one in commands.commands.items()
                if isinstance(one, Command)
            ]
        return [nodes.literal_block(codes, codes, language="text"), *sections]

    def _section(self, context: click.Context, command: Command) -> nodes.section:
        name = command.name or ""
        section = nodes.section(ids=[f"pbdist-{name}"], names=[f"pbdist {name}"])
        section += nodes.title("", f"pbdist {name}")
        for text in (command.help or "").split("\n\n"):
            if text.startswith("\b"):
                plain = text.removeprefix("\b\n")
                section += nodes.literal_block(plain, plain, language="text")
            else:
                section += nodes.paragraph("", " ".join(text.split()))
        usage = f"{context.command_path} {' '.join(command.collect_usage_pieces(context))}"
        section += nodes.literal_block(usage, usage, language="text")
        for title, records in command.sections(context).items():
            section += nodes.rubric("", title)
            found = nodes.definition_list()
            for signature, what in records:
                term = nodes.term("", "", nodes.literal(signature, signature))
                found += nodes.definition_list_item("", term, nodes.definition("", nodes.paragraph("", what)))
            section += found
        example = f"pbdist {command.example}"
        section += nodes.literal_block(example, example, language="text")
        self.state.document.note_implicit_target(section, section)
        return section


def setup(app: Sphinx) -> dict[str, bool]:
    """Add the directive."""
    app.add_directive("command-reference", CommandReference)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
