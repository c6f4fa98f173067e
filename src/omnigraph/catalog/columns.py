"""System columns every table has, beside the properties of its type."""

from __future__ import annotations

ID = "id"
SOURCE = "src"
TARGET = "dst"
