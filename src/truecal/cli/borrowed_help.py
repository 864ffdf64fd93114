"""Help of a command whose options argparse reads, shown as that of the other commands."""

from __future__ import annotations

import argparse
import inspect
from typing import Annotated, Any

import typer


def show_help(parser: argparse.ArgumentParser) -> None:
    """Print the help of a parser as typer would: one panel per group of options."""

    def command(**_: Any) -> None:
        raise AssertionError("only its help is shown")

    members = [(group, action) for group in parser._action_groups for action in group._group_actions]
    plain = [made for group, action in members for made in _option(group, action)]
    command.__signature__ = inspect.Signature(plain)  # type: ignore[attr-defined]  # what typer reads
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in plain}
    command.__doc__ = parser.description
    app = typer.Typer(add_completion=False, rich_markup_mode="markdown", pretty_exceptions_enable=False)
    app.command()(command)
    app(["--help"], prog_name=parser.prog, standalone_mode=False)


def _option(group: Any, action: argparse.Action) -> list[inspect.Parameter]:
    if action.dest == "help":
        return []
    words = action.help or (f"one of {', '.join(map(str, action.choices))}" if action.choices else "")
    words = f"{words[:1].upper()}{words[1:].removesuffix('.')}." if words else ""
    panel = {"options": "Options", "positional arguments": "Arguments"}.get(group.title, str(group.title).capitalize())
    info: Any
    kind: Any = bool if action.nargs == 0 else int if action.type is int else float if action.type is float else str
    if not action.option_strings:
        info = typer.Argument(help=words, show_default=False)
    else:
        named: dict[str, Any] = {} if action.nargs == 0 or action.metavar is None else {"metavar": action.metavar}
        info = typer.Option(*action.option_strings, help=words, show_default=False, rich_help_panel=panel, **named)
    wanted: Any = kind if kind is bool else kind | None
    annotation: Any = Annotated[wanted, info]
    default = False if kind is bool else None
    return [inspect.Parameter(action.dest, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)]
