#!/usr/bin/env bash
# Installs what the build and the tests need on Debian 12, and builds into ./build (or $1). For demo.sh and run.sh.
#   setup.sh [BUILD_DIR] [cmake options...]
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build}
shift || true

packages=(build-essential cmake ninja-build ccache liburing-dev libcli11-dev libspdlog-dev libfmt-dev
    libxxhash-dev doctest-dev libexpected-dev nlohmann-json3-dev libpcre2-dev libutf8proc-dev
    libhttp-parser-dev librapidcheck-dev
    python3)
missing=()
for package in "${packages[@]}"; do
    dpkg -s "$package" >/dev/null 2>&1 || missing+=("$package")
done
if ((${#missing[@]})); then
    sudo=$([ "$(id -u)" = 0 ] || echo sudo)
    $sudo apt-get update -qq
    DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2
fi

export PATH=$PATH:/usr/local/cuda/bin
# -U: options of an earlier call, such as leaving out the tests or the CUDA backend, do not persist.
cmake -U 'SLUICE_*' -S . -B "$build" -G Ninja -DCMAKE_CXX_COMPILER_LAUNCHER=ccache "$@" >&2
cmake --build "$build" >&2
