"""The directive ``command-reference``: every command and option of `pbdist`, from its parser."""

import argparse
from collections.abc import Iterator

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from pbdist.cli.entry import command_parser
from pbdist.cli.parser import complete

_WIDTH = 88


def _commands(parser: argparse.ArgumentParser) -> Iterator[tuple[str, str, argparse.ArgumentParser]]:
    """Yield the commands of a parser in order: the name, what it does, and the parser of each."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for listed in action._choices_actions:
                complete(action.choices[listed.dest])
                yield listed.dest, listed.help or "", action.choices[listed.dest]


def _plain(parser: argparse.ArgumentParser) -> argparse.HelpFormatter:
    return argparse.HelpFormatter(parser.prog, width=_WIDTH)


def _usage(parser: argparse.ArgumentParser) -> str:
    """Return the line of usage, without its first word."""
    formatter = _plain(parser)
    formatter.add_usage(parser.usage, parser._actions, parser._mutually_exclusive_groups, prefix="")
    return formatter.format_help().strip()


def _sentence(text: str) -> str:
    """Return a line of help as a sentence."""
    return text[:1].upper() + text[1:] + "." if text and not text.endswith(".") else text


def _signature(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    """Return an option with its names and values, as ``--help`` has it."""
    return _plain(parser)._format_action_invocation(action)


class CommandReference(SphinxDirective):
    """Sections on all commands: what each does, its usage, its arguments and options."""

    def run(self) -> list[nodes.Node]:
        """Return the sections."""
        return [self._section(*command) for command in _commands(command_parser())]

    def _section(self, name: str, does: str, parser: argparse.ArgumentParser) -> nodes.section:
        section = nodes.section(ids=[f"pbdist-{name}"], names=[f"pbdist {name}"])
        section += nodes.title("", f"pbdist {name}")
        for text in (_sentence(does), parser.description or ""):
            if text:
                section += nodes.paragraph("", " ".join(text.split()))
        usage = _usage(parser)
        section += nodes.literal_block(usage, usage, language="text")
        for group in parser._action_groups:
            rows = [action for action in group._group_actions if action.help != argparse.SUPPRESS]
            listed = [action for action in rows if not isinstance(action, argparse._HelpAction)]
            if listed:
                section += nodes.rubric("", (group.title or "").capitalize())
                section += self._options(parser, listed)
        if parser.epilog:
            section += nodes.literal_block(parser.epilog, parser.epilog, language="text")
        self.state.document.note_implicit_target(section, section)
        return section

    def _options(self, parser: argparse.ArgumentParser, actions: list[argparse.Action]) -> nodes.definition_list:
        found = nodes.definition_list()
        formatter = _plain(parser)
        for action in actions:
            signature = _signature(parser, action)
            term = nodes.term("", "", nodes.literal(signature, signature))
            text = formatter._expand_help(action) if action.help else ""
            found += nodes.definition_list_item("", term, nodes.definition("", nodes.paragraph("", text)))
        return found


def setup(app: Sphinx) -> dict[str, bool]:
    """Add the directive."""
    app.add_directive("command-reference", CommandReference)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
