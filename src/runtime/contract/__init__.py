"""What the service promises, worked out from the kinds: routes, bodies, answers, the files in `schemas/`."""
