"""The server on loopback: what HTTP adds to a call, and how far clients and workers go.

CPU per request is the figure to trust, because the clients run on the same cores. So two workers
are compared with one by what they answer while the busier one uses a second of CPU. This counts
what they cost each other and how evenly connections are shared, not the cores of the clients.
The empty handler is a Starlette route that decodes the same body and answers with as many bytes.

A server keeps small answers until the next commit. So reads are measured twice: the same request
again and again, which it answers from memory, and requests that each name another person.
"""

from __future__ import annotations

import io
import json
import multiprocessing
import os
import select
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import numpy as np
import pyarrow as pa

import omnigraph
from bench.harness import Figure, p50, report
from omnigraph.graph.handle import Graph
from omnigraph.settings.models import MaintenanceSettings, Settings
from omnigraph_testing.http_server import ProcessServer, client_of
from omnigraph_testing.long_bodies import LONG_BODY_SCHEMA, peak_bytes, person_lines

PEOPLE = {"small": 20_000, "full": 500_000}
BODIES = {"small": (10_000_000, 50_000_000), "full": (100_000_000, 2_000_000_000)}
LOAD_SECONDS = 1800
UPKEEP_SECONDS = 10.0
EXPORTED = {"small": 200_000, "full": 5_000_000}
SECONDS = {"small": 3.0, "full": 10.0}
CLIENTS = 16
ROUNDS = 4
WRITERS = 64
CALLS = 3000
Process = subprocess.Popen[bytes]
SCHEMA = "node Person { name: String @key  age: I64? }\nedge Knows: Person -> Person"
HOP = (
    "query hop($name: String) { match { $p: Person { name: $name } $p knows $f } "
    "return { $f.name as name } }"
)
ADD = "query add($name: String) { insert Person { name: $name } }"
EMPTY = """
import socket, sys, msgspec, uvicorn
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route
answer = b"x" * int(sys.argv[2])
async def handle(request):
    msgspec.json.decode(await request.body())
    return Response(answer, media_type="application/json")
bound = socket.socket(fileno=int(sys.argv[1]))
app = Starlette(routes=[Route("/graphs/default/query", handle, methods=["POST"])])
config = uvicorn.Config(app, loop="uvloop", http="httptools", access_log=False, log_config=None)
uvicorn.Server(config).run(sockets=[bound])
"""

LOAD_SERVER = """
import sys
from omnigraph.server.configuration import RequestLimits, ServerSettings
from omnigraph.server.supervisor import serve
from omnigraph.settings.models import MaintenanceSettings, Settings
limits = RequestLimits(load_bytes=0)
settings = ServerSettings(port=0, unauthenticated=True, log_level="warning", limits=limits)
upkeep = MaintenanceSettings(automatic=bool(sys.argv[2]))
serve({"default": sys.argv[1]}, settings, Settings(maintenance=upkeep))
"""


def run(scale: str) -> None:
    seconds = SECONDS[scale]
    with tempfile.TemporaryDirectory(prefix="omnigraph-bench-") as folder:
        uri = str(Path(folder) / "people.omni")
        graph = make(uri, PEOPLE[scale])
        graph.engine.reconciler.settle(600)  # else it shares the cores with what is measured
        figures = [*reads(graph, uri, seconds, PEOPLE[scale]), *writes(uri, seconds)]
        graph.close()
        figures.append(exports(str(Path(folder) / "export.omni"), EXPORTED[scale]))
    figures.extend(loads(*BODIES[scale]))
    report("server", figures, [f"scale {scale}", f"{CLIENTS} clients, {WRITERS} writers"])


def make(uri: str, people: int, settings: Settings | None = None) -> Graph:
    graph = omnigraph.init(uri, SCHEMA, settings=settings)
    chance = np.random.default_rng(7)
    names = pa.array([f"p{n}" for n in range(people)])
    knows = pa.table(
        {"src": names, "dst": names.take(pa.array(chance.integers(0, people, people)))}
    )
    graph.apply({"Person": {"insert": pa.table({"name": names})}, "Knows": {"insert": knows}})
    return graph


def reads(graph: Graph, uri: str, seconds: float, people: int) -> Iterator[Figure]:
    for number in range(CALLS // 4):
        graph.query(HOP, params={"name": f"p{number}"}).to_pylist()
    began = time.process_time()
    for number in range(CALLS):
        graph.query(HOP, params={"name": f"p{number}"}).to_pylist()
    embedded = (time.process_time() - began) / CALLS * 1e6
    with served(uri) as server:
        assert server.process is not None
        (worker,) = workers_of(server.process)
        answer = ask(server.url, CALLS // 4)
        same = cpu_of(worker)
        ask(server.url, CALLS)
        again = (cpu_of(worker) - same) / CALLS * 1e6
        ask(server.url, CALLS // 4, CALLS)
        before = cpu_of(worker)
        ask(server.url, CALLS, 2 * CALLS)
        over_http = (cpu_of(worker) - before) / CALLS * 1e6
        alone, one, others = Load(), Load(), Load()
        with empty_server(answer) as (url, empty):
            for _ in range(ROUNDS):  # in turns, so that all of them see the same machine
                alone.measure(url, empty, seconds / ROUNDS)
                one.measure(server.url, server.process, seconds / ROUNDS)
                others.measure(server.url, server.process, seconds / ROUNDS, people)
    with served(uri, "--workers", "2") as server:
        assert server.process is not None
        two = Load()
        two.measure(server.url, server.process, seconds, people)
    yield Figure(
        "CPU of a 1-hop query over HTTP beyond the call, ever another person",
        over_http - embedded, embedded, "us", "<= 200 us", against="our own embedded call",
    )  # fmt: skip
    yield Figure(
        "CPU of a 1-hop query over HTTP, the same again", again, embedded, "us", "stated",
        against="our own embedded call, ever another person",
    )  # fmt: skip
    yield Figure(
        f"1-hop reads by {CLIENTS} clients, the same again, for a second of the server's CPU",
        one.per_cpu_second, alone.per_cpu_second, "req/s", ">= 0.8", "higher",
        against="the HTTP stack with an empty handler",
    )  # fmt: skip
    yield Figure(
        f"1-hop reads by {CLIENTS} clients, the same again", one.per_second, alone.per_second,
        "req/s", "stated", "higher", against="the HTTP stack with an empty handler",
    )  # fmt: skip
    yield Figure(
        f"1-hop reads by {CLIENTS} clients, ever another person", others.per_second,
        alone.per_second, "req/s", "stated", "higher",
        against="the HTTP stack with an empty handler",
    )  # fmt: skip
    yield Figure(
        "reads with two workers, ever another person, for a second of the busier worker's CPU",
        two.per_cpu_second, others.per_cpu_second, "req/s", ">= 1.6", "higher",
        against="our own server with one worker",
    )  # fmt: skip
    yield Figure(
        "reads with two workers, ever another person, with the clients on the same two cores",
        two.per_second, others.per_second, "req/s", "stated", "higher",
        against="our own server with one worker",
    )  # fmt: skip


def writes(uri: str, seconds: float) -> Iterator[Figure]:
    limits = {"OMNIGRAPH_PER_ACTOR_INFLIGHT_MAX": "128"}
    with served(uri, environment=limits) as server:
        alone = commits(server.url, 1, seconds, "a")
        many = commits(server.url, WRITERS, seconds, "b")
    yield Figure(
        f"commits/s of {WRITERS} writers", len(many) / seconds, len(alone) / seconds, "commits/s",
        ">= 3", "higher", against="our own single writer",
    )  # fmt: skip
    worst = float(np.percentile(many, 99)) if many else float("nan")
    yield Figure(
        f"p99 of a write among {WRITERS}", worst, p50(many) if many else float("nan"), "ms", "< 5",
        against="our own median of the same run",
    )  # fmt: skip


def exports(uri: str, rows: int) -> Figure:
    graph = make(uri, rows, Settings(maintenance=MaintenanceSettings(automatic=False)))
    began = time.perf_counter()
    graph.export(io.FileIO(os.devnull, "wb"))
    embedded = rows * 2 / (time.perf_counter() - began)
    graph.close()
    with served(uri) as server, server.graph_client() as client:
        began = time.perf_counter()
        with client.stream("POST", "/export", json={}) as answer:
            assert answer.status_code == 200
            for _ in answer.iter_raw():
                pass
        over_http = rows * 2 / (time.perf_counter() - began)
    return Figure(
        "export",
        over_http,
        embedded,
        "rows/s",
        ">= 0.5",
        "higher",
        against="our own embedded export",
    )


def loads(short: int, long: int) -> Iterator[Figure]:
    """Peak memory of a server during one load, which its body must not raise.

    The upkeep that follows a load sorts its ids, so it is measured by itself.
    """
    small, large = (load_peak(size, upkeep=False) for size in (short, long))
    yield Figure(
        f"peak memory of a load of {long // 10**6:,} MB over HTTP",
        large / 2**20,
        small / 2**20,
        "MiB",
        "<= 1.2",
        against=f"our own load of {short // 10**6:,} MB",
    )
    yield Figure(
        f"peak memory of a load of {long // 10**6:,} MB and of the index that is built after it",
        load_peak(long, upkeep=True) / 2**20,
        large / 2**20,
        "MiB",
        "stated",
        against="our own load of as many bytes",
    )


def load_peak(size: int, *, upkeep: bool) -> int:
    with tempfile.TemporaryDirectory(prefix="omnigraph-bench-") as folder:
        uri = str(Path(folder) / "load.omni")
        omnigraph.init(uri, LONG_BODY_SCHEMA).close()
        with load_server(uri, upkeep=upkeep) as (url, process), client_of(url) as client:
            answer = client.post(
                "/graphs/default/load/ndjson",
                content=person_lines(size),
                headers={"Content-Type": "application/x-ndjson"},
                timeout=LOAD_SECONDS,
            )
            assert answer.status_code == 200, answer.text
            before, peak = 0, peak_bytes(process.pid)
            while upkeep and peak > before:
                time.sleep(UPKEEP_SECONDS)
                before, peak = peak, peak_bytes(process.pid)
            return peak


@contextmanager
def load_server(uri: str, *, upkeep: bool) -> Iterator[tuple[str, Process]]:
    """A server that takes bodies of any length, with or without upkeep after commits."""
    process = subprocess.Popen(
        [sys.executable, "-c", LOAD_SERVER, uri, "upkeep" if upkeep else ""],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdout is not None
    try:
        yield "http://" + process.stdout.readline().decode().strip().partition("=")[2], process
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


@contextmanager
def served(
    uri: str, *arguments: str, environment: dict[str, str] | None = None
) -> Iterator[ProcessServer]:
    quiet = {"OMNIGRAPH_LOG": "warning", **(environment or {})}
    with ProcessServer(uri, "--unauthenticated", *arguments, environment=quiet) as server:
        yield server


@contextmanager
def empty_server(size: int) -> Iterator[tuple[str, Process]]:
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    bound.bind(("127.0.0.1", 0))
    bound.listen(512)
    process = subprocess.Popen(
        [sys.executable, "-c", EMPTY, str(bound.fileno()), str(size)], pass_fds=(bound.fileno(),)
    )
    url = f"http://127.0.0.1:{bound.getsockname()[1]}"
    try:
        ask(url, 50)
        yield url, process
    finally:
        process.terminate()
        process.wait()
        bound.close()


def workers_of(process: Process) -> list[int]:
    """The processes that answer: the children of a server with several workers, or itself."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return [int(child) for child in children] or [process.pid]


def cpu_of(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def request_of(path: str, body: object) -> bytes:
    content = json.dumps(body).encode()
    head = (
        f"POST /graphs/default{path} HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\n"
    )
    return f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content


_HEAD, _, _BODY = request_of("/query", {"query": HOP, "params": {"name": "NAME"}}).partition(
    b"\r\n\r\n"
)
_BEFORE_LENGTH = _HEAD[: _HEAD.rindex(b" ") + 1]
_BEFORE_NAME, _AFTER_NAME = (b"\r\n\r\n" + _BODY).split(b"NAME")
_OTHER_BYTES = len(_BODY) - len(b"NAME")


class Connection:
    """A client that does as little as possible, because it shares the cores with the server."""

    def __init__(self, url: str) -> None:
        host, _, port = url.removeprefix("http://").partition(":")
        self._socket = socket.create_connection((host, int(port)))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._data = b""

    def fileno(self) -> int:
        return self._socket.fileno()

    def begin(self, request: bytes) -> None:
        self._data = b""
        self._socket.sendall(request)

    def is_answered(self) -> bool:
        """Take what is there; whether the answer to the last request is whole."""
        self._data += self._socket.recv(65536)
        head, found, rest = self._data.partition(b"\r\n\r\n")
        if not found:
            return False
        assert head.startswith(b"HTTP/1.1 200"), head
        begin = head.index(b"content-length: ") + 16
        return len(rest) == int(head[begin:].partition(b"\r\n")[0])

    def send(self, request: bytes) -> tuple[int, int]:
        """(status, bytes of the body)."""
        self._socket.sendall(request)
        data = b""
        while b"\r\n\r\n" not in data:
            data += self._socket.recv(65536)
        head, _, rest = data.partition(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        while len(rest) < length:
            rest += self._socket.recv(65536)
        return int(head[9:12]), length


def hop_request(person: int) -> bytes:
    name = b"p%d" % person
    return _BEFORE_LENGTH + b"%d" % (_OTHER_BYTES + len(name)) + _BEFORE_NAME + name + _AFTER_NAME


def ask(url: str, count: int, first: int | None = None) -> int:
    """Ask so often for one person, or from `first` on for one after the other; the last size."""
    connection = Connection(url)
    size = 0
    for number in range(count):
        status, size = connection.send(hop_request(7 if first is None else first + number))
        assert status == 200
    return size


@dataclass
class Load:
    """Answers to clients in two processes, and what the server took for them."""

    answers: int = 0
    seconds: float = 0.0
    cpu_seconds: dict[int, float] = field(default_factory=dict)
    """Of each worker, by its process."""
    rounds: int = 0

    def measure(self, url: str, process: Process, seconds: float, people: int = 0) -> None:
        """All clients ask for the same person, or, of `people`, each for one after the other."""
        context = multiprocessing.get_context("spawn")
        # Every round asks for others, because the server has kept the answers of the last one.
        skip = self.rounds * people // (CLIENTS * ROUNDS)
        parts = [(url, CLIENTS // 2, seconds, people, part, skip) for part in range(2)]
        before = {worker: cpu_of(worker) for worker in workers_of(process)}
        with context.Pool(2) as pool:
            self.answers += sum(pool.starmap(_read_for, parts))
        self.seconds += seconds
        self.rounds += 1
        for worker, used in before.items():
            known = self.cpu_seconds.get(worker, 0.0)
            self.cpu_seconds[worker] = known + cpu_of(worker) - used

    @property
    def per_second(self) -> float:
        return self.answers / self.seconds

    @property
    def per_cpu_second(self) -> float:
        """Answers while the busiest worker uses a second of CPU."""
        return self.answers / max(self.cpu_seconds.values())


def _read_for(url: str, clients: int, seconds: float, people: int, part: int, skip: int) -> int:
    """Answers that so many clients got. One thread serves them all, as cheaply as it can."""
    connections = [Connection(url) for _ in range(clients)]
    same = hop_request(7)
    for connection in connections:
        connection.send(same)
    begin = [(part * clients + n) * people // (2 * clients) + skip for n in range(clients)]
    poll = select.epoll()
    by_number = {c.fileno(): (c, count(first)) for c, first in zip(connections, begin, strict=True)}
    for connection, persons in by_number.values():
        poll.register(connection.fileno(), select.EPOLLIN)
        connection.begin(hop_request(next(persons)) if people else same)
    answered = 0
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for number, _ in poll.poll(0.1):
            connection, persons = by_number[number]
            if connection.is_answered():
                answered += 1
                connection.begin(hop_request(next(persons)) if people else same)
    return answered


def commits(url: str, writers: int, seconds: float, prefix: str) -> list[float]:
    """Milliseconds of each write of so many clients."""
    taken: list[float] = []
    end = time.perf_counter() + seconds

    def write(number: int) -> None:
        connection = Connection(url)
        count = 0
        while (began := time.perf_counter()) < end:
            count += 1
            name = f"{prefix}-{number}-{count}"
            status, _ = connection.send(
                request_of("/mutate", {"query": ADD, "params": {"name": name}})
            )
            assert status == 200, status
            taken.append((time.perf_counter() - began) * 1000)

    _all(write, writers)
    return taken


def _all(work: object, count: int) -> None:
    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]  # type: ignore[arg-type]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
