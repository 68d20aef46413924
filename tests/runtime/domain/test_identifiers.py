"""Ids that begin with an instant: told apart, alike in form, and sorted as they were made."""

import os
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

from runtime.domain.identifiers import ALPHABET, ID_LENGTH, new_id, new_ordered_id, random_draw

AT_MS = 1_767_225_600_000


def test_later_ids_sort_behind() -> None:
    """Across every place of the number that stands for the instant."""
    instants = [0, 1, 31, 32, *(AT_MS + (1 << bit) for bit in range(40)), (1 << 48) - 1]

    assert all(earlier < later for earlier, later in pairwise(map(new_ordered_id, sorted(instants))))


def test_they_look_as_every_id_does() -> None:
    """So whoever checks the form of an id takes them."""
    made = (new_ordered_id(AT_MS), new_id())
    assert [len(each) for each in made] == [ID_LENGTH] * 2
    assert set("".join(made)) <= set(ALPHABET)


def test_those_of_one_instant_differ() -> None:
    """Eighty random bits follow the instant."""
    made = {new_ordered_id(AT_MS) for _ in range(1_000)}

    assert len(made) == 1_000
    assert len({each[:10] for each in made}) == 1


def test_no_draw_is_given_out_twice() -> None:
    """Neither to two threads, nor to a process and one that began as its copy."""
    with ThreadPoolExecutor(4) as threads:
        drawn = [
            draw
            for part in threads.map(lambda _: [random_draw() for _ in range(1_000)], range(4))
            for draw in part
        ]
    assert random_draw() is not None  # some of those that the next ones come from are there
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.write(writing, b"".join(random_draw() for _ in range(300)))
        os._exit(0)
    os.waitpid(child, 0)
    told = os.read(reading, 16 * 300)
    os.close(reading)
    os.close(writing)
    copies = [told[at : at + 16] for at in range(0, len(told), 16)]
    own = [random_draw() for _ in range(300)]

    assert len(copies) == 300
    assert len({*drawn, *copies, *own}) == len(drawn) + len(copies) + len(own)
