"""Limits of calls at once: of one actor, over workers, and what is refused has no effect."""

from __future__ import annotations

import json
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import httpx
import pytest

from omnigraph import failpoints
from omnigraph.errors import AdmissionRefused
from omnigraph.graph.access import Access, AdmittedRead
from omnigraph.graph.admission import Admission, AdmissionLimits, ProcessSlots
from omnigraph.graph.engine import Engine
from omnigraph.server.shared_slots import SharedSlots
from omnigraph_testing.http_server import ThreadServer, wait_until

ADD = "query add($name: String) { insert Person { name: $name } }"


def limits(**changed: float) -> AdmissionLimits:
    known = {
        "reads": 2,
        "streams": 1,
        "actor_writes": 4,
        "actor_bytes": 1000,
        "writes": 8,
        "write_wait_seconds": 0.05,
    }
    return AdmissionLimits(**{**known, **changed})  # type: ignore[arg-type]


@pytest.mark.parametrize("shared", [False, True])
def test_slots_of_an_actor(tmp_path: Path, shared: bool) -> None:
    """Two users of one directory stand for two workers."""
    first = SharedSlots(str(tmp_path), limits()) if shared else ProcessSlots(limits())
    second = SharedSlots(str(tmp_path), limits()) if shared else first
    held = [first.take("ada", 10), second.take("ada", 10), first.take("ada", 10)]
    held.append(second.take("ada", 10))
    assert all(callable(slot) for slot in held)
    assert first.take("ada", 10) == second.take("ada", 10) == "actor_inflight"
    assert callable(first.take("bob", 10))
    for slot in held[:2]:
        slot()  # type: ignore[operator]
    assert second.take("ada", 990) == "actor_bytes"
    assert callable(second.take("ada", 900))


def test_a_single_write_may_be_larger_than_the_sum(tmp_path: Path) -> None:
    assert callable(SharedSlots(str(tmp_path), limits()).take("ada", 5000))
    assert callable(ProcessSlots(limits()).take("ada", 5000))


def test_reads_and_streams() -> None:
    admission = Admission(limits())

    def reading() -> AdmittedRead:
        return AdmittedRead(
            cast("Access", SimpleNamespace(admission=admission)), cast("Engine", None)
        )

    with reading(), reading():
        with pytest.raises(AdmissionRefused) as refused, reading():
            pass
        assert (refused.value.reason, refused.value.limit) == ("read_inflight", 2)
        with admission.stream():
            pass
    assert admission.inflight == {"read": 0, "stream": 0, "write": 0}
    assert admission.refused == {"read_inflight": 1}


def test_a_write_waits_for_its_turn_only_so_long() -> None:
    admission = Admission(limits(writes=1))
    with admission.write("ada", 1):
        with pytest.raises(AdmissionRefused) as refused, admission.write("bob", 1):
            pass
        assert refused.value.reason == "write_queue"
        assert refused.value.retry_after == 1.0
    with admission.write("bob", 1):
        pass


def test_the_queue_says_when_to_come_again() -> None:
    """Writes that take ten seconds, one at a time, with three that wait: half a minute at least."""
    admission = Admission(limits(writes=1, write_wait_seconds=1.0))
    admission._write_seconds = 10.0
    refusals: list[AdmissionRefused] = []

    def wait() -> None:
        with pytest.raises(AdmissionRefused) as refused, admission.write("bob", 1):
            pass
        refusals.append(refused.value)

    with admission.write("ada", 1):
        waiting = [threading.Thread(target=wait) for _ in range(3)]
        for thread in waiting:
            thread.start()
        wait_until(lambda: admission._queued == 3)
        for thread in waiting:
            thread.join()
    told = sorted(refused.retry_after or 0 for refused in refusals)
    assert told[0] >= 10.0
    assert told[-1] == 30.0


def test_of_32_writes_16_are_admitted(uri: str) -> None:
    """Acceptance check 3."""
    tokens = json.dumps({"ada": "a", "bob": "b"})
    with ThreadServer(uri, tokens=tokens) as server:
        served = next(iter(server.state.graphs))
        served.graph._access.gate = None  # as a policy that lets them write
        served._handles.clear()
        go_on = threading.Event()
        held = threading.Semaphore(0)

        def hold(name: str) -> None:
            if name in ("commit.after_stage", "group.after_stage"):  # writes may ride together
                held.release()
                assert go_on.wait(60)

        with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(33) as clients:
            patch.setattr(failpoints, "hit", hold)

            def write(number: int) -> httpx.Response:
                with server.graph_client(token="a") as client:
                    return client.post(
                        "/mutate", json={"query": ADD, "params": {"name": f"a{number}"}}
                    )

            answers = [clients.submit(write, number) for number in range(32)]
            wait_until(lambda: sum(answer.done() for answer in answers) == 16)
            assert server.state.admission.inflight["write"] == 16
            with server.graph_client(token="b") as bob:
                query = "match { $p: Person } return { count($p) as n }"
                assert bob.post("/query", json={"query": query}).status_code == 200
                other = clients.submit(
                    bob.post, "/mutate", json={"query": ADD, "params": {"name": "of bob"}}
                )
                wait_until(lambda: server.state.admission.inflight["write"] == 17)
                go_on.set()
                assert other.result().status_code == 200
        found = Counter(answer.result().status_code for answer in answers)
        assert found == {200: 16, 429: 16}
        refused = next(a.result() for a in answers if a.result().status_code == 429)
        assert int(refused.headers["retry-after"]) >= 1
        assert refused.json()["retryable"] is True
        wait_until(lambda: server.state.admission.inflight["write"] == 0)


def test_a_denied_request_takes_no_slot(uri: str) -> None:
    with (
        ThreadServer(uri, tokens='{"ada": "a"}') as server,
        server.graph_client(token="a") as ada,
    ):
        for _ in range(20):
            assert ada.post("/mutate", json={"query": ADD}).status_code == 403
        assert server.state.admission.refused == {}
