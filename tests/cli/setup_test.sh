#!/usr/bin/env bash
# The README's commands work one after the other: what the first leaves out of the build, the next does not.
set -euo pipefail
cd "$SLUICE_SOURCE_DIR"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
real=$(command -v cmake)
# Configures, and builds nothing.
printf '#!/bin/sh\ncase $1 in --build) exit 0 ;; esac\nexec %s "$@"\n' "$real" >"$work/cmake"
chmod +x "$work/cmake"
configured() { grep "^$1:" "$work/build/CMakeCache.txt" | cut -d= -f2; }

setup=(env "PATH=$work:$PATH" bash tools/setup.sh "$work/build")
"${setup[@]}" -DSLUICE_TESTS=OFF -DSLUICE_CUDA=OFF
[ "$(configured SLUICE_TESTS)" = OFF ]
[ "$(configured SLUICE_CUDA)" = OFF ]
"${setup[@]}" -DSLUICE_SANITIZE=address
[ "$(configured SLUICE_TESTS)" = ON ]
[ "$(configured SLUICE_SANITIZE)" = address ]
"${setup[@]}"
[ -z "$(configured SLUICE_SANITIZE)" ]
compiler=$(configured CMAKE_CUDA_COMPILER)
case $compiler in
"" | *NOTFOUND) [ "$(configured SLUICE_CUDA)" = OFF ] ;;
*) [ "$(configured SLUICE_CUDA)" = ON ] ;;
esac
