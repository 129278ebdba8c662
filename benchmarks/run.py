"""`make bench`: what an event costs, each figure beside a floor and a peer measured in the same run.

Machines are shared and noisy: quote the ratios. Absolute figures are goals, and mean something only with the machine
they were measured on, which is printed first.
"""

from __future__ import annotations

import argparse
import os
import platform

import emit
import ingest


def main() -> None:
    """Run both benchmarks and print their tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=["emit", "ingest"], help="run one of the two")
    parser.add_argument("--seconds", type=float, default=5.0, help="how long each ingest phase lasts")
    parser.add_argument("--events", type=int, default=20_000, help="events in each emit round")
    chosen = parser.parse_args()
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, {platform.machine()} {platform.system()}\n")
    if chosen.only != "ingest":
        emit.run(chosen.events)
    if chosen.only != "emit":
        ingest.run(chosen.seconds)


if __name__ == "__main__":
    main()
