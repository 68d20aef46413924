"""Expensive things that the tests of a process share, since making them again proves nothing.

Nothing here is another mechanism than the product's. RSA keys are real and each is a new one, passwords are
hashed by argon2id, connections over TLS are verified: only the cost is lower. Event loops are uvloop's, and
garbage is looked for as often, as in `zoned serve`. Services that tests start as processes of their own know
nothing of it.
"""

import asyncio
import gc
import os
import ssl
import threading
from functools import cache, partial, wraps
from typing import Any

import certifi
import uvloop
from argon2 import PasswordHasher
from cryptography.hazmat.primitives.asymmetric import rsa

from runtime.adapters import passwords
from runtime.adapters.keys.signing import Algorithm, SigningKey
from runtime.adapters.outbound import Outbound
from runtime.cli.worker import _GC_THRESHOLDS

_EXPONENT = 65537
_generate = SigningKey.generate
_make_context = ssl.create_default_context
_open = Outbound.__init__
_AUTHORITIES = (None, certifi.where(), os.environ.get("SSL_CERT_FILE"))


def economize() -> None:
    """Let this process share what it may.

    A context of TLS takes longer to make than a request takes: it reads every authority's certificate.
    """
    asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
    gc.set_threshold(*_GC_THRESHOLDS)
    SigningKey.generate = Keys().generate
    passwords.PasswordHasher = partial(PasswordHasher, time_cost=1, memory_cost=8, parallelism=1)
    ssl.create_default_context = _context
    Outbound.__init__ = _open_with_shared_authorities  # type: ignore[method-assign]


class Keys:
    """New RSA keys, most without a search for primes: those are the product of two that other keys had.

    A key that is generated brings two primes. Each makes another key with every prime that was there before;
    when all of these are given away, the next key is generated. For a thousand keys that is done 23 times.
    """

    def __init__(self) -> None:
        self._primes: list[int] = []
        self._pairs: list[tuple[int, int]] = []
        self._turn = threading.Lock()

    def generate(self, algorithm: Algorithm) -> SigningKey:
        """A new key that no test has had."""
        if algorithm != "RS256":
            return _generate(algorithm)
        with self._turn:
            if self._pairs:
                return SigningKey._of(_key_of(*self._pairs.pop()), algorithm)
            made = _generate(algorithm)
            self._keep(made)
            return made

    def _keep(self, key: SigningKey) -> None:
        assert isinstance(key.private_key, rsa.RSAPrivateKey)
        numbers = key.private_key.private_numbers()
        new = [numbers.p, numbers.q]
        self._pairs = [(known, prime) for known in self._primes for prime in new]
        self._primes += new


def _key_of(p: int, q: int) -> rsa.RSAPrivateKey:
    """The key of two primes. OpenSSL's have both upper bits set, so any two make one of full length."""
    d = rsa.rsa_recover_private_exponent(_EXPONENT, p, q)
    numbers = rsa.RSAPrivateNumbers(
        p,
        q,
        d,
        rsa.rsa_crt_dmp1(d, p),
        rsa.rsa_crt_dmq1(d, q),
        rsa.rsa_crt_iqmp(p, q),
        rsa.RSAPublicNumbers(_EXPONENT, p * q),
    )
    return numbers.private_key(unsafe_skip_rsa_key_validation=True)


def _context(*arguments: Any, **named: Any) -> ssl.SSLContext:
    """A context for clients; one of the authorities that everybody trusts is shared by all who ask for it."""
    if arguments or named.keys() - {"cafile"} or named.get("cafile") not in _AUTHORITIES:
        return _make_context(*arguments, **named)
    return _shared(named.get("cafile"), os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))


@wraps(_open)
def _open_with_shared_authorities(client: Outbound, **named: Any) -> None:
    """Make a client that shares the context of its pool; certificates of its own it puts into new ones."""
    _open(client, **{"trust": _context, **named})
    if "trust" not in named:
        client._trust = _make_context


@cache
def _shared(cafile: str | None, *_environment: str | None) -> ssl.SSLContext:
    return _make_context(cafile=cafile)
