"""A decoder process: reads jobs from a socket and answers each, until the socket ends."""

from __future__ import annotations

import pickle
import signal
import sys
from multiprocessing.connection import Connection

from tracehold_collector.core.errors import CollectorError
from tracehold_collector.decoders.decoder import Decoder
from tracehold_collector.decoders.wire import READY, write_answer


class _NoPandas:
    """Keeps pyarrow from importing pandas to see whether a list is a series of its: 45 MB and half a second."""

    def find_spec(self, name: str, _path: object = None, _target: object = None) -> None:
        if name == "pandas":
            raise ImportError(name)


def main() -> None:
    """Serve the parent that handed over the socket."""
    sys.meta_path.insert(0, _NoPandas())
    # Ctrl-C goes to every process of the terminal: the parent decides when this one ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with Connection(int(sys.argv[1])) as parent:
        try:
            decoder = Decoder(pickle.loads(parent.recv_bytes()))  # noqa: S301 - from our own parent
            parent.send_bytes(READY)
            while True:
                job = pickle.loads(parent.recv_bytes())  # noqa: S301 - as said
                try:
                    answer = write_answer(decoder.decode(job))
                except CollectorError as error:
                    answer = write_answer(error)
                del job
                parent.send_bytes(answer)
        except (EOFError, OSError):
            return


if __name__ == "__main__":
    main()
