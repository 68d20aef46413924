"""Background jobs: `schedule` lists them, `runner` runs each in one process at a time."""
