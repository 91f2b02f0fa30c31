"""`flashgen cache`: what is kept, and how to drop it."""

from __future__ import annotations

import click

from flashgen.cli.options import json_option


@click.group()
def cache() -> None:
    """Look at or empty the cache of compiled kernels.

    \b
    Example:
      flashgen cache info
      flashgen cache clear
    """


@cache.command()
@json_option
def info(as_json: bool) -> None:
    """Say where compiled kernels are kept and how much room they take.

    \b
    Example:
      flashgen cache info
    """
    from flashgen.cli.output import print_json
    from flashgen.compilation.cache import open_store
    from flashgen.units import format_bytes

    store = open_store()
    count, size = store.entries()
    if as_json:
        print_json({"directory": str(store.directory), "artifacts": count, "bytes": size})
    else:
        click.echo(f"{store.directory}: {count} compiled kernels, {format_bytes(size)}.")
        click.echo("FLASHGEN_CACHE_DIR moves it; flashgen cache clear empties it.")


@cache.command()
@json_option
def clear(as_json: bool) -> None:
    """Remove every compiled kernel. They are built again when needed.

    \b
    Example:
      flashgen cache clear
    """
    from flashgen.cli.output import print_json
    from flashgen.compilation.cache import open_store
    from flashgen.units import format_bytes

    store = open_store()
    count, size = store.clear()
    if as_json:
        print_json({"directory": str(store.directory), "artifacts": count, "bytes": size})
    else:
        click.echo(f"Removed {count} compiled kernels ({format_bytes(size)}) from {store.directory}.")
