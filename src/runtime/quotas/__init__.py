"""The inventory of limits: tables, short-lived state, caches, sizes and endpoints, each with its bound.

Each limit stands where it is enforced; the lists here name them, and docs/limits.md is made from the lists.
So a number in the document is the number in the code. What is in no list is found by tests that look at the
tree: limits, kinds of short-lived state, tables, routes, and what a process remembers.

`python -m runtime.quotas FILE` writes the document.
"""

from runtime.quotas.state import BOUNDS

__all__ = ["BOUNDS"]
