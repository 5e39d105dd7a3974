#!/usr/bin/env python3
"""Reads the compiler's resource reports of a CUDA build; lists spills and fails on static shared memory over 99 KB.

  ptxas_report.py BUILD_LOG      (the log of a whole build with -DSLUICE_PTXAS_REPORT=ON)
"""
import pathlib
import re
import sys

SHARED_MAX = 99 * 1024


def kernels(text):
    for part in re.split(r"ptxas info\s+: Compiling entry function ", text)[1:]:
        name, arch = re.match(r"'([^']+)' for '([^']+)'", part).groups()
        shared = re.search(r"(\d+) bytes smem", part)
        spill = re.search(r"(\d+) bytes spill stores", part)
        registers = re.search(r"Used (\d+) registers", part)
        yield name, arch, int(registers.group(1)), int(shared.group(1)) if shared else 0, int(spill.group(1)) if spill else 0


def main():
    found = list(kernels(pathlib.Path(sys.argv[1]).read_text()))
    if not found:
        print("no compiler report found")
        return 1
    bad = [k for k in found if k[3] > SHARED_MAX]
    spilling = [k for k in found if k[4] > 0]
    archs = sorted({k[1] for k in found})
    print(f"{len(found)} kernels for {', '.join(archs)}: at most {max(k[3] for k in found)} bytes of static shared memory,"
          f" {max(k[2] for k in found)} registers; {len(spilling)} spill")
    for name, arch, registers, shared, spill in bad + spilling:
        print(f"  {arch} {name}: {shared} bytes shared, {spill} bytes spilled")
    return 1 if bad or len(archs) < 5 else 0


if __name__ == "__main__":
    sys.exit(main())
