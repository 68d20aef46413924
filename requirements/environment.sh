#!/bin/sh
# Creates a virtual environment with pip in it, or says what the machine lacks.
# usage: PYTHON=python3 environment.sh DIRECTORY
set -eu
target=$1

recent() { command -v "$1" >/dev/null 2>&1 && "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }
able() { "$1" -c 'import ensurepip' 2>/dev/null || "$1" -m pip --version >/dev/null 2>&1; }

# The first that is recent and can make an environment; else the first that is recent, which is told what it lacks.
python=
for candidate in "${PYTHON:-python3}" python3 python3.13 python3.12 python3.11; do
    if recent "$candidate"; then
        python=${python:-$candidate}
        if able "$candidate"; then
            python=$candidate
            break
        fi
    fi
done
if [ -z "$python" ]; then
    echo "zonewright needs Python 3.11 or newer, and \`${PYTHON:-python3}\` is not; set PYTHON=/path/to/python3" >&2
    exit 1
fi

if "$python" -c 'import ensurepip' 2>/dev/null; then
    "$python" -m venv "$target"
elif "$python" -m pip --version >/dev/null 2>&1; then
    # Some distributions leave ensurepip out: the pip beside it can still fill an environment.
    "$python" -m venv --without-pip "$target"
    "$python" -m pip --python "$target/bin/python" install --quiet pip
else
    echo "this Python cannot create an environment with pip in it: the module \`ensurepip\` is missing" >&2
    echo "install it first; on Debian and Ubuntu: apt install python3-venv" >&2
    exit 1
fi
