"""What the service promises, worked out from the kinds: routes, bodies, answers, and the files in `schemas/`."""
