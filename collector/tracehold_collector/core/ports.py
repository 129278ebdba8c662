"""Ports to listen on: taken ones are named with a free one beside them."""

from __future__ import annotations

import contextlib
import errno
import socket

from tracehold_collector.core.errors import CollectorError


class PortTakenError(CollectorError):
    """Another program listens on the wanted port.

    Attributes:
        port: the one wanted.
        free: one that is free now.
        setting: which setting says the port: `port`, `grpc_port`, `dashboard_port`.
    """

    def __init__(self, host: str, port: int, free: int, setting: str = "port") -> None:
        """Name the port and offer another."""
        flag = flag_of(setting)
        super().__init__(f"port {port} on {host} is taken by another program; {free} is free: try {flag} {free}")
        self.port = port
        self.free = free
        self.setting = setting


def flag_of(setting: str) -> str:
    """Return the flag of a setting."""
    return "--" + setting.replace("_", "-")


def bind(host: str, port: int, *, setting: str = "port") -> socket.socket:
    """Return a listening socket.

    Args:
        host: the address.
        port: the port; 0 picks a free one.
        setting: which setting says the port, for messages.

    Raises:
        PortTakenError: names the port and offers another.
        CollectorError: the address cannot be used.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    own = socket.socket(family, socket.SOCK_STREAM)
    own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        own.bind((host, port))
        own.listen(2048)
    except OSError as error:
        own.close()
        if error.errno == errno.EADDRINUSE:
            raise PortTakenError(host, port, free_port(host, port), setting) from error
        raise CollectorError(
            f"cannot listen on {host}:{port}: {error.strerror}; choose another --host or {flag_of(setting)}"
        ) from error
    return own


def free_port(host: str, wanted: int) -> int:
    """Return the next free port above `wanted`, or any free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for port in [*range(wanted + 1, min(wanted + 50, 65536)), 0]:
        with contextlib.closing(socket.socket(family, socket.SOCK_STREAM)) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
            except OSError:
                continue
            number: int = probe.getsockname()[1]
            return number
    raise CollectorError(f"no free port on {host}")
