#!/usr/bin/env bash
# Asks `sluice serve` with the clients that people use, in a virtual environment of its own: the packages openai and
# anthropic, the commands llm and curl. The versions are those that were tried last.
#   api_clients.sh BUILD_DIR [PACKAGE...]     more packages: langchain-openai litellm pydantic-ai-slim[openai]
set -euo pipefail
cd "$(dirname "$0")/../.."
build=$(realpath "$1")
shift
cmake --build "$build" --target sluice tests_tools >/dev/null
venv=$build/clients-venv
sudo=$([ "$(id -u)" = 0 ] || echo sudo)
command -v curl >/dev/null || $sudo apt-get install -y -qq --no-install-recommends curl >/dev/null
if [ ! -x "$venv/bin/python" ]; then
    if ! python3 -m venv "$venv" 2>/dev/null; then
        $sudo apt-get install -y -qq python3-venv >/dev/null
        python3 -m venv "$venv"
    fi
fi
"$venv/bin/pip" install -q --disable-pip-version-check openai==3.57.0 anthropic==2.14.0 llm==0.36 "$@"
"$venv/bin/python" -B tests/dev/api_clients.py "$build/tests/tests_tools"
"$venv/bin/python" -B tests/dev/api_clients.py "$build/sluice" tests/models/dsv41-tiny
"$venv/bin/python" -B tests/dev/api_clients.py "$build/sluice" tests/models/dsv41-rand-a
