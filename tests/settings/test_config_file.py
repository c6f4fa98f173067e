from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from omnigraph.errors import InvalidArgument
from omnigraph.settings.config_file import read_config
from omnigraph.settings.models import Settings


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    file = Path.home() / ".omnigraph" / "config.yaml"
    file.parent.mkdir(parents=True)
    return file


def read(config: Path, text: str) -> Settings:
    config.write_text(text, encoding="utf-8")
    return read_config(config).settings


def test_no_settings_are_the_defaults(config) -> None:
    for text in ("", "settings:\n", "settings: {}\n", "settings:\n  write:\n"):
        assert read(config, text) == Settings()


def test_every_setting_can_be_said(config) -> None:
    """Each field, given its default, is read back as it."""
    lines = ["settings:"]
    for part in dataclasses.fields(Settings):
        lines.append(f"  {part.name}:")
        default = getattr(Settings(), part.name)
        for field in dataclasses.fields(default):
            value = getattr(default, field.name)
            said = str(value).lower() if isinstance(value, bool) else value
            said = {None: "null", (): "[]"}.get(said, said)
            lines.append(f"    {field.name}: {'{}' if field.name == 'conf' else said}")
    assert read(config, "\n".join(lines)) == Settings()


def test_values_arrive_as_their_types(config, monkeypatch) -> None:
    found = read(
        config,
        "settings:\n"
        "  write: {durability: fsync, lease_seconds: 5}\n"
        "  read: {cache_directory: '', spill_directory: scratch, timeout_seconds: 1.5}\n"
        "  load: {blob_bases: [photos, ~/more, 's3://bucket/x']}\n"
        "  pipeline: {conf: {spark.a: true, spark.b: 3, spark.c: 2g}}\n"
        "  embedding: {provider: gemini, api_key_env: MY_KEY}\n",
    )
    assert found.write.durability == "fsync"
    assert (found.write.lease_seconds, type(found.write.lease_seconds)) == (5.0, float)
    assert found.read.cache_directory == ""
    assert found.read.spill_directory == str(config.parent / "scratch")
    home = Path.home()
    assert found.load.blob_bases == (
        str(config.parent / "photos"),
        str(home / "more"),
        "s3://bucket/x",
    )
    assert found.pipeline.conf == (("spark.a", "true"), ("spark.b", "3"), ("spark.c", "2g"))
    assert (found.embedding.provider, found.embedding.api_key_env) == ("gemini", "MY_KEY")


@pytest.mark.parametrize(
    ("text", "message", "key"),
    [
        ("wirte: {}", "unknown key `settings.wirte`; did you mean 'write'?", "settings.wirte"),
        ("write: {durabilty: fsync}", "did you mean 'durability'?", "settings.write.durabilty"),
        ("write: fsync", "`settings.write` must hold", "settings.write"),
        ("write: {durability: disk}", "must be one of process, fsync, got 'disk'", None),
        ("write: {lease_seconds: soon}", "must be a number, got 'soon'", None),
        ("write: {lease_seconds: .nan}", "must be a finite number", None),
        ("write: {lease_seconds: 0}", "must be more than 0, got 0.0", None),
        ("write: {lease_seconds: null}", "must be a number, got nothing", None),
        ("read: {memory_bytes: 8GB}", "must be a whole number, got '8GB'", None),
        ("read: {memory_bytes: 1.5}", "must be a whole number, got 1.5", None),
        ("read: {memory_bytes: true}", "must be a whole number, got True", None),
        ("read: {memory_bytes: -1}", "must be at least 1, got -1", None),
        ("maintenance: {automatic: 1}", "must be true or false, got 1", None),
        ("embedding: {provider: [a]}", "must be one of local, mock", None),
        ("load: {blob_bases: photos}", "must be a list, got 'photos'", None),
        ("load: {blob_bases: [1]}", "`settings.load.blob_bases[0]` must be a text", None),
        ("pipeline: {conf: [1]}", "`settings.pipeline.conf` must hold", None),
        ("pipeline: {conf: {a: [1]}}", "`settings.pipeline.conf.a` must be a text", None),
    ],
)
def test_what_is_wrong_is_named(config, text, message, key) -> None:
    with pytest.raises(InvalidArgument) as caught:
        read(config, f"settings:\n  {text}\n")
    assert str(caught.value).startswith(f"{config}:2: ")
    assert message in str(caught.value)
    assert caught.value.fields["file"] == str(config)
    if key is not None:
        assert caught.value.fields["key"] == key


def test_a_key_has_no_place_in_the_file_and_is_not_repeated(config) -> None:
    for line in ("api_key: sk-secret-1", "api_key_env: sk-secret-1"):
        with pytest.raises(InvalidArgument) as caught:
            read(config, f"settings:\n  embedding:\n    {line}\n")
        assert "secret" not in str(caught.value)
        assert "api_key_env" in str(caught.value)
