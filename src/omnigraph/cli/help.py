"""How a command explains itself: its own options first, those of every command behind them."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand

SHARED = ("json_output", "as_actor", "quiet", "yes", "help")


class Command(TyperCommand):
    """Required arguments as `NAME`, optional ones as `[NAME]`, texts without their Python type."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return [_without_braces(piece) for piece in super().collect_usage_pieces(ctx)]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        params = self.get_params(ctx)
        own = [p for p in params if p.name not in SHARED]
        sections = {
            "Arguments": [p for p in own if p.param_type_name == "argument"],
            "Options": [p for p in own if p.param_type_name == "option"],
            "Options of every command": [p for p in params if p.name in SHARED],
        }
        for title, members in sections.items():
            if members:
                with formatter.section(title):
                    formatter.write_dl([help_record(p, ctx) for p in members])


def help_record(parameter: Any, ctx: Any) -> tuple[str, str]:
    names, text = parameter.get_help_record(ctx) or ("", "")
    return names.removesuffix(" <str>"), text


def _without_braces(piece: str) -> str:
    return piece.replace("{", "").replace("}", "")
