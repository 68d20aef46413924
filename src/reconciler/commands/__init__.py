"""The commands of `zonectl`, one module each; `cli.py` declares their options."""
