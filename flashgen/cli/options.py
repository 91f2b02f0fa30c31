"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

DTYPES = ("fp16", "bf16", "fp32", "fp64")
ALGORITHMS = ("standard", "fa1", "fa2", "decode")


class DTypeChoice(click.Choice[str]):
    """An element type by flashgen's name, or by NumPy's or torch's (``float16``, ``torch.bfloat16``)."""

    name = "dtype"

    def __init__(self) -> None:
        super().__init__(DTYPES)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Flashgen's name of it."""
        return super().convert(dtype_name(value), param, ctx)


def dtype_name(text: str) -> str:
    """Flashgen's name of a type that has several, or the text itself."""
    from flashgen.dtypes import parse_dtype
    from flashgen.errors import SpecError

    try:
        return parse_dtype(text).name
    except SpecError:
        return text


class CommaList(click.ParamType[list[str] | list[int]]):
    """A comma-separated list of choices or of positive whole numbers."""

    name = "list"

    def __init__(self, choices: tuple[str, ...] | None = None) -> None:
        self.choices = choices

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Splits the text and checks every item."""
        items = [item.strip() for item in str(value).split(",") if item.strip()]
        items = [dtype_name(item) for item in items] if self.choices is DTYPES else items
        for item in items:
            if self.choices is not None and item not in self.choices:
                self.fail(f"{item!r} is not one of {', '.join(self.choices)}.", param, ctx)
            if self.choices is None and not (item.isdecimal() and int(item) > 0):
                self.fail(f"{item!r} is not a positive whole number.", param, ctx)
        if not items:
            self.fail("the list is empty.", param, ctx)
        return items if self.choices is not None else [int(item) for item in items]


causal_option = click.option(
    "--causal",
    is_flag=False,
    flag_value="bottom_right",
    default=None,
    type=click.Choice(["bottom_right", "top_left"]),
    help="Causal mask; without a value, bottom_right (row i sees key j if j <= i + Sk - Sq).",
)
algorithm_option = click.option(
    "--algorithm",
    default="auto",
    show_default=True,
    type=click.Choice(["auto", *ALGORITHMS]),
    help="How to compute it.",
)
target_option = click.option(
    "--target",
    default="auto",
    show_default=True,
    metavar="TARGET",
    help="Where: auto, cpu, cpu:x86-64-v3, sm_80, ...",
)
targets_option = click.option(
    "--target",
    "targets",
    multiple=True,
    metavar="TARGET",
    help="Where: auto (default), cpu, cpu:x86-64-v3, sm_80, ...; with --model any number of them, default: every GPU.",
)
sram_option = click.option(
    "--sram",
    metavar="SIZE",
    help="On-chip memory to use: 96KB (= 98304 bytes, as 96KiB), 0.5MB, 98304. Default: the family's own tile.",
)
tuned_option = click.option(
    "--no-tuned",
    "tuned",
    flag_value=False,
    default=None,
    type=bool,
    help="Do not use what flashgen autotune has found.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object for machines.")

_KERNEL_OPTIONS = (
    click.option("--d", type=click.IntRange(min=1), required=True, help="Head dim of q and k."),
    click.option("--dv", type=click.IntRange(min=1), help="Head dim of v and out. Default: d."),
    click.option("--dtype", default="fp16", show_default=True, type=DTypeChoice(), help="Element type."),
    causal_option,
    sram_option,
    click.option("--br", type=click.IntRange(min=1), help="Query rows of a tile. Default: chosen."),
    click.option("--bc", type=click.IntRange(min=1), help="Keys of a tile. Default: chosen."),
    algorithm_option,
    target_option,
    json_option,
)


def kernel_options(command: F) -> F:
    """Adds the options that describe a kernel; the command takes them as keyword arguments."""
    return _with(_KERNEL_OPTIONS, command)


def kernel_options_and_targets(command: F) -> F:
    """The same, but ``--target`` may be given several times; the command takes a tuple, ``targets``."""
    return _with([targets_option if option is target_option else option for option in _KERNEL_OPTIONS], command)


def _with(options: Sequence[Callable[[F], F]], command: F) -> F:
    for option in reversed(options):
        command = option(command)
    return command


def request(options: dict[str, Any]) -> dict[str, Any]:
    """Turns the kernel options into arguments of `flashgen.plan` and `flashgen.build`."""
    names = {
        "d": "d",
        "dv": "d_v",
        "dtype": "dtype",
        "sram": "sram",
        "br": "br",
        "bc": "bc",
        "algorithm": "algorithm",
        "target": "target",
    }
    return {ours: options[theirs] for theirs, ours in names.items()} | {"causal": options["causal"] or False}
