"""Certificates for servers of tests, each its own trust anchor."""

import ssl
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def self_signed(
    path: Path,
    host: str,
    *,
    also: Sequence[str] = (),
    days: tuple[float, float] = (-1, 1),
    password: bytes | None = None,
) -> Path:
    """Write a key and a certificate of that host name to a file.

    Args:
        also: further host names.
        days: from now, in which it is valid.
        password: that the key is encrypted with.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    protection: serialization.KeySerializationEncryption = serialization.NoEncryption()
    if password is not None:
        protection = serialization.BestAvailableEncryption(password)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(
            name, name, key.public_key(), 1, now + timedelta(days[0]), now + timedelta(days[1])
        )
        .add_extension(
            x509.SubjectAlternativeName([x509.DNSName(each) for each in (host, *also)]), critical=False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, protection)
        + made.public_bytes(serialization.Encoding.PEM)
    )
    return path


def serving(certificate: Path, *, clients: Path | None = None) -> ssl.SSLContext:
    """What a server with that certificate shows.

    Args:
        clients: a certificate that clients have to show, or one that signed it.
    """
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=clients)
    if clients is not None:
        context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(certificate)
    return context


def trusting(certificate: Path) -> ssl.SSLContext:
    """What a client that trusts that certificate alone checks with."""
    return ssl.create_default_context(cafile=certificate)
