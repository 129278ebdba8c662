"""A decoder process: reads jobs from a socket and answers each, until the socket ends."""

from __future__ import annotations

import pickle
import signal
import sys
from multiprocessing.connection import Connection

from tracehold_collector.core.errors import CollectorError
from tracehold_collector.core.lean import without_pandas
from tracehold_collector.decoders.decoder import Decoder
from tracehold_collector.decoders.wire import READY, write_answer


def main() -> None:
    """Serve the parent that handed over the socket."""
    without_pandas()
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
