"""The `flashgen` command: its group, and how errors leave it."""

from __future__ import annotations

import sys

import click

from flashgen import __version__
from flashgen.cli.autotune import autotune
from flashgen.cli.bench import bench
from flashgen.cli.build import build
from flashgen.cli.cache import cache
from flashgen.cli.doctor import doctor
from flashgen.cli.explain import explain
from flashgen.cli.io import io
from flashgen.cli.plan import plan
from flashgen.cli.run import run
from flashgen.cli.show import show
from flashgen.cli.tune import tune
from flashgen.cli.verify import verify
from flashgen.cli.visualize import visualize
from flashgen.errors import FlashgenError
from flashgen.log import configure, logger

INTERRUPTED = 130  # as shells have it: 128 + SIGINT


class _Commands(click.Group):
    """A group in the order of use, whose errors are one paragraph and an exit code."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except FlashgenError as error:
            logger.debug("traceback:", exc_info=True)
            click.echo(f"Error: {error}", err=True)
            sys.exit(error.exit_code)
        except KeyboardInterrupt:
            click.echo("Interrupted.", err=True)
            sys.exit(INTERRUPTED)
        except OSError as error:
            if isinstance(error, BrokenPipeError):
                raise  # click ends quietly
            logger.debug("traceback:", exc_info=True)
            where = f"{error.filename}: " if error.filename else ""
            click.echo(f"Error: {where}{error.strerror or error}.", err=True)
            sys.exit(2)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="flashgen")
def main() -> None:
    """Compile attention kernels for any head dim, dtype and mask, within a memory budget.

    \b
    Example:
      flashgen build --d 64 --sram 96KB
    """
    configure()


for command in (plan, build, run, verify, bench, autotune, tune, show, explain, io, visualize, cache, doctor):
    main.add_command(command)
