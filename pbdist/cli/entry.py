"""Parse the command line, call the command, and turn errors into one line and an exit code."""

import io
import os
import sys
from collections.abc import Sequence

import click

from pbdist.cli import bounds, dpsgd, plot, query, report, size, store, study
from pbdist.cli.output import EXIT_CODES, FAILED, SPELLING, WRONG
from pbdist.cli.parser import SETTINGS, field_of
from pbdist.errors import BatchError, PbdistError, StoreDamagedError, StoreIncompleteError

#: Errors that are no wrong input.
_FAILURES = (BatchError, StoreDamagedError, StoreIncompleteError)
#: The environment variable that a shell sets when it completes a line.
_COMPLETE = "_PBDIST_COMPLETE"


def run_command(arguments: Sequence[str] | None) -> int:
    """Run a command and return the exit code: see `pbdist.cli.main`."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal without Greek letters prints their names, instead of a traceback.
            stream.reconfigure(errors=SPELLING)
    try:
        if os.environ.get(_COMPLETE):
            from click.shell_completion import shell_complete

            return shell_complete(commands, {}, "pbdist", _COMPLETE, os.environ[_COMPLETE])
        try:
            with commands.make_context("pbdist", list(sys.argv[1:] if arguments is None else arguments)) as context:
                code = int(commands.invoke(context))
        except click.exceptions.Exit as end:
            # The help or the version was printed.
            code = end.exit_code
        sys.stdout.flush()
        return code
    except click.UsageError as error:
        path = "pbdist" if error.ctx is None else error.ctx.command_path
        text = " ".join(error.format_message().split())
        if isinstance(error, click.BadParameter) and not isinstance(error, click.MissingParameter) and error.param:
            text = f"{field_of(error.param)}: {error.message}"
        problems, code = [f"pbdist: error: {PbdistError(text)} (see {path} --help)"], WRONG
    except PbdistError as error:
        # The notes are the other errors of the same file.
        problems = [f"pbdist: error: {error}", *getattr(error, "__notes__", ())]
        code = FAILED if isinstance(error, _FAILURES) else WRONG
    except BrokenPipeError:
        # The reader of the output has gone; with /dev/null nothing fails when it is flushed at the exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        problems, code = [f"pbdist: error: {PbdistError(str(error))}"], WRONG
    print(*problems, sep="\n", file=sys.stderr)
    return code


_COMMANDS = (
    *(bounds.delta, bounds.epsilon, dpsgd.dpsgd, store.export, report.explore, study.new, study.plan, plot.plot),
    *(query.query, report.report, study.run, size.size, store.status, study.studies, store.verify),
)


@click.group(commands=_COMMANDS, invoke_without_command=True, context_settings=SETTINGS, epilog=EXIT_CODES)
@click.version_option(None, package_name="pbdist", message="pbdist %(version)s", help="Print the version.")
@click.option(
    "--import", "modules", metavar="MODULE", multiple=True, help="a module that defines mechanisms of your own"
)
@click.pass_context
def commands(context: click.Context, modules: Sequence[str]) -> int:
    """Certified bounds on r-fold approximate differential privacy, for whole studies.

    \b
    Three commands to try:
      pbdist run quickstart     compute a small study, in seconds, into data/quickstart.zarr
      pbdist query data/quickstart.zarr --mechanism Laplace --scale 200 --compositions 512 --epsilon 0.1
      pbdist size --family Gaussian --compositions 100 --epsilon 1 --delta 1e-6

    Then: pbdist studies lists more studies, and pbdist new my-study.yaml writes one of your own. In ~/.bashrc, for
    completion of commands, options and names: eval "$(_PBDIST_COMPLETE=bash_source pbdist)"
    """  # noqa: D301
    if modules:
        from pbdist.mechanisms.declaration import import_mechanisms

        # A console script does not search the current folder.
        sys.path.insert(0, os.getcwd())
        for module in modules:
            import_mechanisms(module, "--import")
    if context.invoked_subcommand is None:
        print(context.get_help())
    return WRONG
