"""Where the operator's config file is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from omnigraph.errors import NotFound
from omnigraph.settings.config_file import OperatorConfig, read_config

PATH_VARIABLE = "OMNIGRAPH_CONFIG"


def read_operator_config(environment: Mapping[str, str]) -> OperatorConfig:
    """The operator's file; no file is fine unless the environment names one."""
    named = environment.get(PATH_VARIABLE)
    try:
        return read_config(named or Path.home() / ".omnigraph" / "config.yaml")
    except NotFound:
        if named:
            raise NotFound(f"{PATH_VARIABLE} names {named}: no such file", file=named) from None
        return OperatorConfig()
