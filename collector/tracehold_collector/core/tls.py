"""A server's certificate and key, read once for both of its ports."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from tracehold.core.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate chain and its private key, as PEM files and as what they hold.

    Attributes:
        chain_file, key_file: where they are.
        chain, key: what is in them.
    """

    chain_file: Path
    key_file: Path
    chain: bytes = field(repr=False)
    key: bytes = field(repr=False)

    @classmethod
    def load(cls, chain_file: Path, key_file: Path) -> Self:
        """Read and check them.

        Raises:
            ConfigurationError: one cannot be read, or they do not belong together; says which, never what is in it.
        """
        read: list[bytes] = []
        for name, file in (("certificate", chain_file), ("key", key_file)):
            try:
                read.append(file.read_bytes())
            except OSError as error:
                raise ConfigurationError(f"cannot read the TLS {name} {file}: {error.strerror}") from error
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(chain_file, key_file, password=_no_password)
        except (ssl.SSLError, ValueError) as error:
            raise ConfigurationError(
                f"the TLS certificate {chain_file} and key {key_file} cannot be used: they are no PEM files without a "
                f"password that belong together ({getattr(error, 'reason', None) or type(error).__name__})"
            ) from None
        return cls(chain_file, key_file, read[0], read[1])


def _no_password() -> str:
    # OpenSSL would ask on the terminal, and a server would hang there.
    raise ValueError("the key is protected by a password")
