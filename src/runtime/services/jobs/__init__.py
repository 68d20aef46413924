"""Background jobs: `runner` runs each in one process at a time; in one run, organizations take `turns`."""
