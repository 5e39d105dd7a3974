"""A short run of tests/dev/kill_saves.py; by hand it runs for longer."""
import os
import subprocess
import sys

SOURCE = os.environ["SLUICE_SOURCE_DIR"]
sys.exit(subprocess.run([sys.executable, os.path.join(SOURCE, "tests/dev/kill_saves.py"), "20", "1"]).returncode)
