#!/usr/bin/env bash
# Measures a machine with a GPU at the released model's shapes, beside what its drive, link and memory allow.
#   full_size.sh BINARY MAKE_CHECKPOINT [--shape NAME] [--only cold,load,paced,resident,ladder,prompt,drives,cache,cputier,gemv,soak] [options]
# See full_size.py.
exec python3 "$(dirname "$0")/full_size.py" "$@"
