"""The live line of a sweep: stage, bar, the best so far, the time left."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import click
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from flashgen.cli.output import console
from flashgen.tuning.sweep import progress as stages
from flashgen.tuning.sweep.progress import Progress as Moment
from flashgen.tuning.sweep.progress import Tell, silent

_WORDS = {
    stages.COMPILING: "compiling",
    stages.SCREENING: "screening",
    stages.FINAL: "final",
    stages.CONFIRMING: "confirming",
    stages.PREDICTING: "predicting",
}


@contextlib.contextmanager
def live_progress(wanted: bool) -> Iterator[Tell]:
    """Yields what a sweep is to tell; on a terminal it is shown.

    The display is redrawn only when it is told something, between two turns: a thread that redraws it would take time
    from the kernels that are being timed.
    """
    if not wanted:
        yield silent
        return
    out = console()
    if not out.is_terminal:
        yield _say_waiting
        return
    columns = (
        TextColumn("{task.fields[shape]}  [bold]{task.description:<10}"),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[count]:<16}"),
        TextColumn("{task.fields[best]}"),
        TextColumn("[dim]{task.fields[left]}"),
    )
    with Progress(*columns, console=out, transient=True, auto_refresh=False) as bar:
        task = bar.add_task("", total=None, shape="", count="", best="", left="")
        yield lambda moment: _draw(bar, task, moment)


def _draw(bar: Progress, task: TaskID, moment: Moment) -> None:
    if moment.stage == stages.WAITING:
        _say_waiting(moment)
        return
    total = moment.total or None
    done, failed = f"{moment.done}" + (f"/{total}" if total else " rounds"), moment.failed
    best = f"best {moment.best}: {moment.best_ratio:.3f} of the default" if moment.best else ""
    bar.update(
        task,
        description=_WORDS[moment.stage],
        completed=moment.done,
        total=total,
        shape=moment.shape,
        count=done + (f", {failed} failed" if failed else ""),
        best=best,
        left=f"{moment.seconds_left:.0f} s left",
    )
    bar.refresh()


def _say_waiting(moment: Moment) -> None:
    if moment.stage == stages.WAITING:
        click.echo("Another sweep is measuring on this machine; waiting for its end.", err=True)
