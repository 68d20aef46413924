"""How long this process lets a database take to answer a question before it counts as hanging.

The product says so after a second. A machine that runs several servers and every test may take longer to
start one more process of PostgreSQL; nothing hangs there. Tests of the time itself take the product's own.
"""

from runtime.storage.sql import hang_detection

OF_THE_PRODUCT = hang_detection.ANSWER_SECONDS
_OF_TESTS = 10.0


def let_databases_take_their_time() -> None:
    """Let no busy machine be a database that hangs."""
    hang_detection.ANSWER_SECONDS = _OF_TESTS
