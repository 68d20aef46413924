"""The contract of the management API, derived from the kinds: routes, bodies, answers, and `schemas/`."""
