"""Keys that tests share are what they would be if each test made its own."""

from itertools import pairwise

from cryptography.hazmat.primitives import serialization
from tests.support.economy import Keys


def test_keys_of_known_primes_are_keys() -> None:
    """OpenSSL finds nothing wrong with them, each is another one, and each is as long as a generated one."""
    keys = Keys()
    made = [keys.generate("RS256") for _ in range(15)]

    checked = [serialization.load_pem_private_key(each.to_pem(), None) for each in made]
    assert [each.key_size for each in checked] == [2048] * 15
    assert len({each.kid for each in made}) == 15
    numbers = [each.private_key.private_numbers() for each in made]
    assert len({prime for each in numbers for prime in (each.p, each.q)}) == 6
    assert all(first.sign({}, typ="JWT") != second.sign({}, typ="JWT") for first, second in pairwise(made))
