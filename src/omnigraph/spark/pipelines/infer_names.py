"""Names that `infer` makes: types, properties and steps from headers and file names."""

from __future__ import annotations

import re
import unicodedata

_RESERVED = ("id", "src", "dst", "from", "to")
_IRREGULAR = {"people": "person", "children": "child", "men": "man", "women": "woman"}
_ID_SUFFIX = re.compile(r"_?(ids?|keys?|codes?|no|nr|num|number|uuid|ref|fk)$")
NAMED_KEY = 20
"""The likeness of a header that names the key of its table: `id`, `customer_id`."""
_KEY_NAMES = ("id", "uuid", "guid", "key", "code", "sku", "isbn", "email", "slug", "number", "name")


def snake_name(text: str) -> str:
    """ASCII words in lower case, joined by `_`; empty if no letter or digit is left."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    apart = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", plain)
    return re.sub(r"[^a-z0-9]+", "_", apart.lower()).strip("_")


def camel_name(text: str) -> str:
    words = snake_name(text).split("_")
    name = "".join(word[:1].upper() + word[1:] for word in words if word)
    return name if name[:1].isalpha() else f"T{name}"


def singular(text: str) -> str:
    """The last word without its plural: `companies` -> `company`."""
    head, last = re.fullmatch(r"(.*?)([A-Za-z]*)", text, re.DOTALL).groups()  # type: ignore[union-attr]
    lower = last.lower()
    if lower in _IRREGULAR:
        return head + _IRREGULAR[lower]
    if lower.endswith("ies") and len(lower) > 4:
        return head + last[:-3] + "y"
    if lower.endswith(("sses", "shes", "ches", "xes")):
        return head + last[:-2]
    if lower.endswith("s") and not lower.endswith(("ss", "us", "is")) and len(lower) > 3:
        return head + last[:-1]
    return text


def property_name(header: str, table: str) -> str:
    """A name that the schema language allows; `id` becomes `customer_id` in `customers`."""
    name = snake_name(header) or "column"
    if name in _RESERVED:
        return f"{snake_name(singular(table))}_{name}"
    return name if name[0].isalpha() else f"c_{name}"


def without_id(header: str) -> str:
    """`customer_id` -> `customer`; a header that is only `id` stays."""
    name = snake_name(header)
    return _ID_SUFFIX.sub("", name) or name


def names_table(header: str, table: str, key: str) -> bool:
    """Whether a header says that its values are keys of a table: `customer_id`, `Customer`."""
    name, of_key = snake_name(header), snake_name(key)
    of_table = snake_name(singular(table))
    about = snake_name(singular(without_id(header)))
    specific = of_key not in ("id", "key", "code", "name", "number", "no", "nr")
    last_word = of_table.rpartition("_")[2]
    return (
        about in (of_table, last_word)
        or about.endswith(f"_{last_word}")
        or (specific and name == of_key)
    )


def key_likeness(header: str, table: str) -> int:
    """How much a header sounds like the key of its table."""
    name, of_table = snake_name(header), snake_name(singular(table))
    if name in ("id", f"{of_table}_id", f"{of_table}_key", f"{of_table}_code", of_table):
        return NAMED_KEY
    for place, word in enumerate(_KEY_NAMES):
        if name == word or name.endswith(f"_{word}"):
            return len(_KEY_NAMES) - place
    return 0
