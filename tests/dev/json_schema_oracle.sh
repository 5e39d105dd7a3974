#!/usr/bin/env bash
# Compares JSON grammars with PyPI's jsonschema and Python's json, in a virtual environment of its own: random answers
# under random schemas must be valid, and valid documents in the grammar's form accepted.
#   json_schema_oracle.sh BUILD_DIR [SCHEMAS]
set -euo pipefail
cd "$(dirname "$0")/../.."
build=$(realpath "$1")
cmake --build "$build" --target json_walk >/dev/null
venv=$build/oracle-venv
if [ ! -x "$venv/bin/python" ]; then
    if ! python3 -m venv "$venv" 2>/dev/null; then
        sudo=$([ "$(id -u)" = 0 ] || echo sudo)
        $sudo apt-get install -y -qq python3-venv >/dev/null
        python3 -m venv "$venv"
    fi
fi
"$venv/bin/pip" install -q --disable-pip-version-check jsonschema
"$venv/bin/python" -B tests/dev/json_schema_oracle.py "$build/json_walk" --schemas "${2:-300}"
