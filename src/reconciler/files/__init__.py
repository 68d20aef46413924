"""Every file that zonectl opens is opened here.

`repository_files` reads what a repository names: nothing outside it, whatever links say. `user_files` reads
and writes what this user or the command line names; `atomic` is how both put a file in place. A test
holds the rest of the package to these.
"""

from .repository_files import FileRefused, Root
from .user_files import check_place, check_writable, read_named, read_private, write_named, write_private

__all__ = [
    "FileRefused",
    "Root",
    "check_place",
    "check_writable",
    "read_named",
    "read_private",
    "write_named",
    "write_private",
]
