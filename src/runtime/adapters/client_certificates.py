"""Client certificates, with which the zone authenticates on a TLS connection (RFC 8705)."""

import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from runtime import files


class InvalidCertificate(ValueError):
    """The text is not a valid certificate with its private key; the message says why."""


@dataclass(frozen=True, slots=True)
class ClientCertificate:
    """A certificate, those that it was signed with, and its private key, as PEM text."""

    pem: str = field(repr=False)

    @classmethod
    def read(cls, pem: str, *, now: datetime) -> "ClientCertificate":
        """The certificate in a PEM text. Raises InvalidCertificate."""
        text = pem.encode()
        try:
            first, *_ = x509.load_pem_x509_certificates(text)
            key = load_pem_private_key(text, password=None)
        except (ValueError, TypeError) as failure:  # TypeError: the key is encrypted
            raise InvalidCertificate("it has to be a certificate and its private key, as PEM") from failure
        if first.public_key() != key.public_key():
            raise InvalidCertificate("the private key belongs to another certificate than the first")
        if not first.not_valid_before_utc <= now <= first.not_valid_after_utc:
            raise InvalidCertificate("the certificate is not valid at this time")
        return cls(pem)

    def context(self, trust: Callable[[], ssl.SSLContext]) -> ssl.SSLContext:
        """What a connection is made with that shows the certificate.

        Args:
            trust: a new context with the trust anchors for the server.
        Raises: OSError when OpenSSL does not take it, for a key that is too short for example.
        """
        context = trust()
        with files.unnamed(self.pem.encode()) as path:  # OpenSSL reads certificates from files alone
            context.load_cert_chain(path)
        return context
