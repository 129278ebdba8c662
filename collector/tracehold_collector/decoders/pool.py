"""Decoder processes beside the writer: on more than one core, decoding no longer waits for the interpreter.

Each process has one socket to its parent; jobs go out and rows come back as buffers. A process that ends, whatever it
was given, takes nothing else down: the job is tried once more elsewhere, then refused, and another process is started.
A process whose parent is gone reads the end of its socket and ends too.
"""

from __future__ import annotations

import os
import pickle
import queue
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Final

import structlog

from tracehold_collector.core.errors import BadBodyError, StoreError
from tracehold_collector.decoders.decoder import Decoded, DecoderSettings, Job
from tracehold_collector.decoders.wire import READY, read_answer

_log = structlog.get_logger(__name__)

WORKER_MODULE: Final = "tracehold_collector.decoders.worker"
_TRIES: Final = 2
_STOP_S: Final = 5.0
_WAIT_S: Final = 60.0
"""Longer than the largest body takes; then the processes have ended and cannot be started again."""

_ENDED: Final = (EOFError, OSError)


class DecoderPool:
    """Decoder processes, started when the first job comes.

    Args:
        settings: what the decoders need; sent over the socket, never in arguments or the environment.
        processes: how many.

    Attributes:
        size: how many processes there are, once started.
    """

    def __init__(self, settings: DecoderSettings, processes: int) -> None:
        self._settings = pickle.dumps(settings)
        self.size = processes
        self._idle: queue.SimpleQueue[_Worker | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._workers: set[_Worker] = set()
        self._started = False
        self._closed = False
        self._ready = threading.Event()

    @property
    def ready(self) -> bool:
        """Whether a process waits for work or works; asking starts them, and does not wait."""
        with self._lock:
            start, self._started = not (self._started or self._closed), True
        if start:
            for _ in range(self.size):
                self._hire()
        return self._ready.is_set()

    def wait_ready(self, timeout_s: float) -> bool:
        """Start, wait until a process is there, and say whether one is."""
        return self.ready or self._ready.wait(timeout_s)

    def decode(self, job: Job) -> Decoded:
        """Decode in a process, when one is free; blocks.

        Raises:
            StoreError: the collector is stopping, or no process was free for a minute.
            BadBodyError: the processes ended over this body, one after the other; or as the decoder says.
        """
        payload = pickle.dumps(job)
        for _ in range(_TRIES):
            try:
                worker = self._idle.get(timeout=_WAIT_S)
            except queue.Empty:
                raise StoreError("no decoder was free in time; send the same request again") from None
            if worker is None:
                self._idle.put(None)
                raise StoreError("the collector is stopping; send the same request again")
            try:
                answer = worker.ask(payload)
            except _ENDED:
                self._replace(worker)
                continue
            except BaseException:
                self._replace(worker)  # its answer would be taken for the next one's
                raise
            self._idle.put(worker)
            return read_answer(answer)
        raise BadBodyError("the body could not be decoded: the process that tried ended twice over it; report it")

    def close(self) -> None:
        """End the processes; who waits for one is told to come back."""
        with self._lock:
            self._closed = True
            workers, self._workers = self._workers, set()
        self._idle.put(None)
        for worker in workers:
            worker.stop()

    def _hire(self) -> None:
        # To start a process and to let it import takes half a second: nobody waits for it who could do without.
        threading.Thread(target=self._start, name="tracehold-decoder", daemon=True).start()

    def _start(self) -> None:
        try:
            worker = _Worker(self._settings)
        except OSError as error:  # no memory, or too many processes or files
            _log.error("decoder_did_not_start", error=type(error).__name__)
            return
        with self._lock:
            closed = self._closed
            if not closed:
                self._workers.add(worker)
        if closed:
            worker.stop()
        elif worker.greets():
            self._idle.put(worker)
            self._ready.set()
        else:
            self._drop(worker, "decoder_did_not_start")

    def _replace(self, worker: _Worker) -> None:
        if self._drop(worker, "decoder_ended"):
            self._hire()

    def _drop(self, worker: _Worker, said: str) -> bool:
        """End a process that is of no use any more; say whether the pool goes on."""
        with self._lock:
            self._workers.discard(worker)
            if not self._workers:
                self._ready.clear()
            closed = self._closed
        code = worker.stop()
        if not closed:
            _log.error(said, exit_code=code)
        return not closed


class _Worker:
    """One process, and the socket to it. Used by one thread at a time."""

    def __init__(self, settings: bytes) -> None:
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                self._process = _run_worker(theirs.fileno())
        except OSError:
            ours.close()
            raise
        self._socket = ours
        self._connection = Connection(os.dup(ours.fileno()))
        with suppress(*_ENDED):
            self._connection.send_bytes(settings)

    def greets(self) -> bool:
        try:
            return self._connection.recv_bytes() == READY
        except _ENDED:
            return False

    def ask(self, payload: bytes) -> bytes:
        self._connection.send_bytes(payload)
        return self._connection.recv_bytes()

    def stop(self) -> int | None:
        """End the process and return its exit code."""
        with suppress(OSError):
            # Not a close: another thread may wait on it, and reads the end now.
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        try:
            return self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:  # at work on something large: nobody waits for that any more
            self._process.kill()
            return self._process.wait()


def _run_worker(descriptor: int) -> subprocess.Popen[bytes]:
    # -P: a module in the folder the collector runs in must not stand in for one of the collector's.
    return subprocess.Popen(  # noqa: S603 - our own interpreter and module
        [sys.executable, "-P", "-m", WORKER_MODULE, str(descriptor)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        pass_fds=[descriptor],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )
