"""Keys that tests share are what they would be if each test made its own."""

from itertools import pairwise

from cryptography.hazmat.primitives import serialization
from tests.support.economy import Keys


def test_keys_of_known_primes_are_keys() -> None:
    """OpenSSL finds nothing wrong with them, each is another one, and each is as long as a generated one."""
    keys = Keys(generated=3)
    generated, made = ([keys.generate("RS256") for _ in range(count)] for count in (3, 12))

    checked = [serialization.load_pem_private_key(each.to_pem(), None) for each in made]
    assert [each.key_size for each in checked] == [2048] * 12
    assert len({each.kid for each in generated + made}) == 15
    primes = [each.private_key.private_numbers().p for each in made]
    assert set(primes) <= {
        prime
        for each in generated
        for prime in (each.private_key.private_numbers().p, each.private_key.private_numbers().q)
    }
    assert all(first.sign({}, typ="JWT") != second.sign({}, typ="JWT") for first, second in pairwise(made))
