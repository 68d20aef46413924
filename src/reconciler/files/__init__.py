"""Every file that zonectl opens is opened here.

`inside` reads what a repository names: nothing outside it, whatever links say. `own` reads and writes what
this user or the command line names; `atomic` is how both put a file in place. A test holds the rest of the
package to these.
"""

from .inside import FileRefused, Root
from .own import check_place, check_writable, read_named, read_private, write_named, write_private

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
