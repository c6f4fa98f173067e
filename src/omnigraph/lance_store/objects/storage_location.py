"""The address of a graph: a directory or an S3 prefix, with the options of both clients."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlparse

from omnigraph.errors import InvalidArgument

_TRUE = frozenset({"1", "true", "yes", "on"})


@dataclass(frozen=True, slots=True)
class StorageLocation:
    """A parsed graph address. `path` is set for local graphs, `bucket`/`prefix` for S3."""

    uri: str
    path: Path | None = None
    bucket: str = ""
    prefix: str = ""
    options: Mapping[str, str] = field(default_factory=dict, compare=False)

    @property
    def is_local(self) -> bool:
        return self.path is not None

    def child(self, relative: str) -> str:
        return f"{self.uri}/{relative}"

    def below(self, relative: str) -> StorageLocation:
        """A place below this one, with the same credentials."""
        return StorageLocation(
            self.child(relative),
            None if self.path is None else self.path / relative,
            self.bucket,
            f"{self.prefix}/{relative}".strip("/"),
            self.options,
        )


def parse_location(uri: str | os.PathLike[str], environment: Mapping[str, str]) -> StorageLocation:
    """Parse a path, `file://` or `s3://` address."""
    if not os.fspath(uri):
        raise InvalidArgument("no address given: a graph is a directory or s3://bucket/prefix")
    text = os.fspath(uri)
    if "://" not in text:
        return _local(Path(text))
    parsed = urlparse(text)
    if parsed.scheme == "file":
        if parsed.netloc not in ("", "localhost"):
            raise InvalidArgument(
                f"{text!r} names the host {parsed.netloc!r}: write file:///path", uri=text
            )
        return _local(Path(unquote(parsed.path)))
    if parsed.scheme == "s3":
        return _s3(text, environment)
    raise InvalidArgument(
        f"cannot open {text!r}: a graph is a directory, file:///path or s3://bucket/prefix",
        uri=text,
    )


def _s3(text: str, environment: Mapping[str, str]) -> StorageLocation:
    bucket, _, path = text[len("s3://") :].partition("/")
    if not bucket:
        raise InvalidArgument(f"{text!r} names no bucket: write s3://bucket/prefix", uri=text)
    # Lance decodes the address and obstore does not. With these characters the two would look in
    # different places, and one graph would have two sets of intents.
    strange = next((c for c in "%?#" if c in path), None)
    if strange is not None:
        raise InvalidArgument(f"{text!r}: a prefix cannot contain {strange!r}", uri=text)
    prefix = "/".join(part for part in path.split("/") if part)
    return StorageLocation(
        uri=f"s3://{bucket}/{prefix}".rstrip("/"),
        bucket=bucket,
        prefix=prefix,
        options=s3_options(environment),
    )


def _local(path: Path) -> StorageLocation:
    absolute = path.expanduser().absolute()
    if "?" in str(absolute):
        # Lance takes it for the start of a URL query and puts branches beside the graph.
        raise InvalidArgument(f"{str(absolute)!r}: a path cannot contain '?'", uri=str(absolute))
    return StorageLocation(uri=str(absolute), path=absolute)


def s3_options(environment: Mapping[str, str]) -> dict[str, str]:
    """`AWS_*` variables as object-store options; the client finds unset ones in its own ways."""
    wanted = {
        "aws_access_key_id": ("AWS_ACCESS_KEY_ID",),
        "aws_secret_access_key": ("AWS_SECRET_ACCESS_KEY",),
        "aws_session_token": ("AWS_SESSION_TOKEN",),
        "aws_region": ("AWS_REGION", "AWS_DEFAULT_REGION"),
        "aws_endpoint": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"),
    }
    options = {}
    for option, names in wanted.items():
        value = next((environment[name] for name in names if environment.get(name)), None)
        if value is not None:
            options[option] = value
    if environment.get("AWS_ALLOW_HTTP", "").lower() in _TRUE:
        options["allow_http"] = "true"
    force_path_style = environment.get("AWS_S3_FORCE_PATH_STYLE", "").lower()
    if force_path_style:
        options["aws_virtual_hosted_style_request"] = str(force_path_style not in _TRUE).lower()
    return options
