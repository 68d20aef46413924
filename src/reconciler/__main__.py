"""`python -m reconciler` is `zonectl`."""

from reconciler.cli import main

main()
