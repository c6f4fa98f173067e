"""Operations of `Graph` with an idempotency key: what a repeated call returns.

Each function runs one operation, or makes the result of the first call with the same key again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from omnigraph.commit.keyed_requests import KeyedRequest, Replay, fingerprint
from omnigraph.commit.request import WriteReceipt, receipt_of
from omnigraph.errors import NotFound
from omnigraph.graph.engine import Engine
from omnigraph.load.options import LoadReceipt, TypeCounts
from omnigraph.manifest.records import Commit
from omnigraph.manifest.refs import Tag, tag_from_json, tag_to_json
from omnigraph.merge.conflicts import MergeResult, Outcome
from omnigraph.mutate.mutation import Mutation, MutationReceipt

if TYPE_CHECKING:
    from omnigraph.evolve.apply import SchemaResult

Json = dict[str, Any]
BRANCH_CREATED = "branch_create"
BRANCH_RENAMED = "branch_rename"
BRANCH_DELETED = "branch_delete"
TAG_CREATED = "tag_create"
TAG_DELETED = "tag_delete"


def keyed(
    operation: str, actor: str | None, key: str | None, branch: str | None, *asked: object
) -> KeyedRequest | None:
    """The request of a call with a key; `asked` is everything that the caller asks for."""
    if key is None:
        return None
    return KeyedRequest(operation, actor, key, fingerprint(operation, branch, *asked), branch)


def details_of(request: KeyedRequest | None) -> Mapping[str, Any]:
    return request.details if request is not None else {}


def mutate(engine: Engine, mutation: Mutation) -> MutationReceipt:
    """Run a mutation; one that changed nothing is remembered, too."""
    request = keyed(
        "mutate",
        mutation.actor,
        mutation.idempotency_key,
        mutation.branch,
        None if mutation.is_stored else mutation.source,
        mutation.name,
        mutation.params,
        mutation.message,
        mutation.if_commit,
    )
    if request is None:
        return engine.mutator.run(mutation)
    asked = replace(mutation, details={**mutation.details, **request.details})

    def to_json(receipt: MutationReceipt) -> Json | None:
        return {"query_name": receipt.query_name} if receipt.commit is None else None

    def of_json(stored: Json) -> MutationReceipt:
        name = stored["query_name"]
        return MutationReceipt(mutation.branch, name, 0, 0, mutation.actor, None, repeated=True)

    # A commit is found by the mutation itself, which knows the name of its query.
    replay: Replay[MutationReceipt] = Replay(lambda _: None, to_json, of_json)
    return engine.requests.once(request, lambda: engine.mutator.run(asked), replay)[0]


def write_receipt_replay(branch: str) -> Replay[WriteReceipt]:
    """A receipt that the commit alone tells."""

    def of_commit(commit: Commit) -> WriteReceipt:
        return receipt_of(branch, commit, repeated=True)

    def to_json(receipt: WriteReceipt) -> Json | None:
        return {} if receipt.commit is None else None

    def of_json(_: Json) -> WriteReceipt:
        return WriteReceipt(branch, None, repeated=True)

    return Replay(of_commit, to_json, of_json)


def merge(
    engine: Engine,
    request: KeyedRequest | None,
    source: str,
    target: str,
    run: Callable[[], MergeResult],
    *,
    delete_branch: bool,
) -> MergeResult:
    """Run a merge; one that found nothing to do is remembered, too."""

    def of_commit(commit: Commit) -> MergeResult:
        kind = Outcome.FAST_FORWARD if commit.equals_merged else Outcome.MERGED
        gone = _is_gone(engine, source, commit.created_at) if delete_branch else None
        return MergeResult(source, target, kind.value, commit, gone, repeated=True)

    def to_json(result: MergeResult) -> Json | None:
        if result.commit is not None and result.branch_delete_error is None:
            return None
        return {
            "outcome": result.outcome,
            "commit": result.commit.graph_commit_id if result.commit is not None else None,
            "branch_deleted": result.branch_deleted,
            "branch_delete_error": result.branch_delete_error,
        }

    def of_json(stored: Json) -> MergeResult:
        made = stored.get("commit")
        return MergeResult(
            source,
            target,
            stored["outcome"],
            engine.commits.find(made, target) if made is not None else None,
            stored["branch_deleted"],
            stored.get("branch_delete_error"),
            repeated=True,
        )

    return engine.requests.once(request, run, Replay(of_commit, to_json, of_json))[0]


def load(
    engine: Engine, request: KeyedRequest | None, run: Callable[[], LoadReceipt]
) -> LoadReceipt:
    """Run a load; one that changed nothing is remembered, too."""

    def to_json(receipt: LoadReceipt) -> Json | None:
        return asdict(receipt) if receipt.commit is None else None

    def of_json(stored: Json) -> LoadReceipt:
        counts = {
            kind: tuple(TypeCounts(**each) for each in stored[kind]) for kind in ("nodes", "edges")
        }
        return LoadReceipt(**{**stored, **counts, "repeated": True})

    # A commit is found by the load itself, which compares the data with that of the first call.
    replay: Replay[LoadReceipt] = Replay(lambda _: None, to_json, of_json)
    return engine.requests.once(request, run, replay)[0]


def _is_gone(engine: Engine, branch: str, since: int) -> bool:
    """Whether the branch of that time was deleted; another one may have its name now."""
    ref = engine.reader.branch_refs.find(branch)
    return ref is None or ref.created_at > since


def apply_schema(
    engine: Engine,
    request: KeyedRequest | None,
    run: Callable[[], SchemaResult],
    of_commit: Callable[[Commit], SchemaResult],
) -> SchemaResult:
    """Change a schema; a schema that was in force already is remembered, too."""
    if request is None:
        return run()
    from omnigraph.evolve.apply import SchemaResult
    from omnigraph.evolve.stored_plans import plan_from_json

    def to_json(result: SchemaResult) -> Json | None:
        return {"plan": result.plan.to_dict()} if result.commit is None else None

    def of_json(stored: Json) -> SchemaResult:
        return SchemaResult(plan_from_json(stored["plan"]), None, repeated=True)

    return engine.requests.once(request, run, Replay(of_commit, to_json, of_json))[0]


def create_branch(
    engine: Engine, request: KeyedRequest | None, name: str, source: str
) -> tuple[Json, bool]:
    """Fork a branch: (what it was when it began, whether an earlier call did it)."""

    def run() -> Json:
        actor = request.actor if request is not None else None
        engine.lifecycle.create(name, source, actor)
        return _branch(engine, name)

    def after_crash(began: int) -> Json | None:
        ref = engine.reader.branch_refs.find(name)
        made = ref is not None and ref.created_at >= began and ref.forked_from == source
        return _branch(engine, name) if made else None

    return engine.requests.once(request, run, _of_branch(engine, name, after_crash))


def rename_branch(
    engine: Engine, request: KeyedRequest | None, name: str, new_name: str
) -> tuple[Json, bool]:
    """Rename a branch: (what it was under its new name, whether an earlier call did it)."""
    from omnigraph.graph.bulk import is_missing

    def run() -> Json:
        actor = request.actor if request is not None else None
        engine.lifecycle.rename(name, new_name, actor)
        return _branch(engine, new_name)

    def after_crash(_: int) -> Json | None:
        # The object of the old name may be left, but the branch does not go by it any more.
        made = is_missing(engine, name) and not is_missing(engine, new_name)
        return _branch(engine, new_name) if made else None

    return engine.requests.once(request, run, _of_branch(engine, new_name, after_crash))


def _branch(engine: Engine, name: str) -> Json:
    """The fields of a `Branch`."""
    ref, state = engine.reader.branch(name)
    return {
        "name": ref.name,
        "head_commit_id": state.head_commit_id,
        "forked_from": ref.forked_from,
        "created_at": ref.created_at,
    }


def _of_branch(
    engine: Engine, name: str, after_crash: Callable[[int], Json | None]
) -> Replay[Json]:
    def of_json(stored: Json) -> Json:
        # Earlier releases stored the name only.
        return stored if "head_commit_id" in stored else _branch(engine, name)

    return Replay(lambda _: None, lambda made: made, of_json, after_crash)


def delete_branch(engine: Engine, request: KeyedRequest | None, name: str) -> bool:
    """Delete a branch; True when an earlier call did it."""

    def run() -> Json:
        engine.lifecycle.delete(name, request.actor if request is not None else None)
        return {"name": name}

    def after_crash(_: int) -> Json | None:
        return {"name": name} if engine.reader.branch_refs.find(name) is None else None

    return engine.requests.once(request, run, _as_it_is(after_crash))[1]


def create_tag(
    engine: Engine, request: KeyedRequest | None, name: str, run: Callable[[], Tag]
) -> tuple[Tag, bool]:
    """Make a tag, or return the tag that an earlier call made, also when it is gone now."""

    def of_json(stored: Json) -> Tag:
        if "tag" in stored:
            return tag_from_json(stored["tag"])
        found = engine.reader.tag_refs.find(name)  # earlier releases stored the name only
        if found is None:
            raise NotFound(f"the tag {name!r} of this key was deleted", tag=name)
        return found

    def after_crash(began: int) -> Tag | None:
        tag = engine.reader.tag_refs.find(name)
        return tag if tag is not None and tag.created_at >= began else None

    replay = Replay(lambda _: None, lambda tag: {"tag": tag_to_json(tag)}, of_json, after_crash)
    return engine.requests.once(request, run, replay)


def delete_tag(engine: Engine, request: KeyedRequest | None, name: str) -> bool:
    """Delete a tag; True when an earlier call did it."""

    def run() -> Json:
        engine.reader.tag_refs.remove(name)
        return {"name": name}

    def after_crash(_: int) -> Json | None:
        return {"name": name} if engine.reader.tag_refs.find(name) is None else None

    return engine.requests.once(request, run, _as_it_is(after_crash))[1]


def _as_it_is(after_crash: Callable[[int], Json | None]) -> Replay[Json]:
    """The replay of an operation without a commit, whose result is stored unchanged."""
    return Replay(lambda _: None, lambda done: done, lambda stored: stored, after_crash)
