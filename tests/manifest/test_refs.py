from __future__ import annotations

import pytest
from states import pin

from omnigraph.errors import FormatUnknown, NotFound
from omnigraph.manifest.records import MAIN_REF, BranchRef
from omnigraph.manifest.refs import BranchRefs, Tag, TagRefs
from omnigraph_testing.fakes import FakeFiles

REVIEW = BranchRef("review/x", "review-x.01", "main", 5)


def tag(name: str = "v1") -> Tag:
    return Tag(name, "c1", "main", 3, 10, "s0", (pin("A"), pin("B")), 11)


def test_main_is_there_without_an_object(files: FakeFiles) -> None:
    refs = BranchRefs(files)
    assert refs.find("main") == MAIN_REF
    assert refs.names() == ["main"]
    assert files.objects == {}


def test_branches(files: FakeFiles) -> None:
    refs = BranchRefs(files)
    assert refs.find("review/x") is None
    assert refs.create(REVIEW)
    assert not refs.create(BranchRef("review/x", "another.02", "main", 6))
    assert refs.find("review/x") == REVIEW
    assert refs.create(BranchRef("review", "review.03", "main", 7)), "names may nest"
    assert refs.names() == ["main", "review", "review/x"]


def test_only_the_own_incarnation_is_removed(files: FakeFiles) -> None:
    refs = BranchRefs(files)
    refs.create(REVIEW)
    refs.remove(BranchRef("review/x", "older.00", "main", 1))
    assert refs.find("review/x") == REVIEW
    refs.remove(REVIEW)
    refs.remove(REVIEW)
    assert refs.find("review/x") is None


def test_tags(files: FakeFiles) -> None:
    refs = TagRefs(files)
    assert refs.create(tag())
    assert not refs.create(tag())
    assert refs.find("v1") == tag()
    assert refs.create(tag("a/b"))
    assert refs.names() == ["a/b", "v1"]
    refs.remove("v1")
    assert refs.names() == ["a/b"]
    with pytest.raises(NotFound, match="'v1'"):
        refs.remove("v1")


@pytest.mark.parametrize("text", ["", "a b", "2026-01-01T00:00:00Z", "../x", "x" * 500])
def test_what_cannot_be_a_tag_is_not_found(files: FakeFiles, text: str) -> None:
    assert TagRefs(files).find(text) is None
    assert files.reads == []


def test_branches_and_tags_do_not_share_names(files: FakeFiles) -> None:
    BranchRefs(files).create(REVIEW)
    assert TagRefs(files).find("review/x") is None
    assert TagRefs(files).create(tag("review/x"))


@pytest.mark.parametrize("data", [b"", b"null", b"[]", b'{"name": "v1"}', b"\xff"])
def test_a_damaged_ref_names_its_object(files: FakeFiles, data: bytes) -> None:
    files.put("_refs/branches/b.json", data)
    files.put("_refs/tags/b.json", data)
    for refs, folder in ((BranchRefs(files), "branches"), (TagRefs(files), "tags")):
        with pytest.raises(FormatUnknown) as caught:
            refs.find("b")
        assert caught.value.object == f"_refs/{folder}/b.json"
