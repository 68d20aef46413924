"""Every file that zonectl opens is opened here.

`repository_files` reads the files that a repository names: none outside it, also through links. `user_files`
reads and writes files of this user and of the command line; `atomic` is how both replace a file, and `git`
asks about a repository. A test checks that no other module opens files.
"""

from .git import ask_git
from .repository_files import FileRefused, Root
from .user_files import check_place, check_writable, read_named, read_private, write_named, write_private

__all__ = [
    "FileRefused",
    "Root",
    "ask_git",
    "check_place",
    "check_writable",
    "read_named",
    "read_private",
    "write_named",
    "write_private",
]
