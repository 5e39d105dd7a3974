"""What the whole-program tests share: the program, the demonstration model, and checks that print."""
import atexit
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

SLUICE = os.environ["SLUICE"]
SOURCE = os.environ["SLUICE_SOURCE_DIR"]
TINY = os.path.join(SOURCE, "tests/models/dsv41-tiny")
RANDOM = os.path.join(SOURCE, "tests/models/dsv41-rand-a")
TOKEN_ROUTED = os.path.join(SOURCE, "tests/models/dsv4-rand-a")  # of another family; routed by token id at first
QUESTION = "What is the capital of Australia?"
ANSWER = b"The capital of Australia is Canberra.\n"


def temp_folder(prefix):
    """A folder of the test's own, removed when it ends, however it ends."""
    folder = tempfile.mkdtemp(prefix=prefix)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


HOME = temp_folder("sluice-home-")


def environment(**changes):
    """No setting of the machine takes part; None removes a variable."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("SLUICE")}
    for name in ("NO_COLOR", "CLICOLOR_FORCE", "XDG_CONFIG_HOME", "HF_HUB_CACHE", "HF_HOME"):
        env.pop(name, None)
    env.update(HOME=HOME, XDG_STATE_HOME=os.path.join(HOME, "state"), TERM="xterm")
    for name, value in changes.items():
        if value is None:
            env.pop(name, None)
        else:
            env[name] = value
    return env


def run(*arguments, stdin=b"", timeout=120, env=None, **more):
    """Runs sluice; stdin is bytes, or a file, or None for one that is closed."""
    options = dict(stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=timeout,
                   env=env or environment())
    if stdin is None:
        options["preexec_fn"] = lambda: os.close(0)
    elif isinstance(stdin, bytes):
        options["input"] = stdin
    else:
        options["stdin"] = stdin
    options.update(more)
    return subprocess.run([SLUICE, *arguments], **options)


def run_cutting(folder, *arguments):
    """Runs sluice on a drive that fails: the shards in `folder` are cut while it loads the model."""
    shards = [os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".safetensors")]
    process = subprocess.Popen([SLUICE, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, env=environment())
    proc = f"/proc/{process.pid}"

    def opened():
        count = 0
        for fd in os.listdir(proc + "/fd"):
            try:
                count += os.readlink(f"{proc}/fd/{fd}").startswith(folder + "/")
            except OSError:  # closed meanwhile
                pass
        return count

    # All of them are open, and after that the readers are there: it has compared the copies.
    while process.poll() is None and opened() < len(shards):
        time.sleep(0.01)
    while process.poll() is None and len(os.listdir(proc + "/task")) < 8:
        time.sleep(0.01)
    for shard in shards:
        os.truncate(shard, 4096)
    out, err = process.communicate(timeout=120)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def check(what, holds, detail=""):
    print(("ok    " if holds else "FAIL  ") + what, flush=True)
    if not holds:
        print("      " + str(detail), flush=True)
        sys.exit(1)


def check_run(what, result, code, stdout=None, stderr=None):
    """Exit code, exact standard output, and a pattern of standard error."""
    text = result.stderr.decode(errors="replace")
    detail = f"exit {result.returncode}, stdout {result.stdout!r}, stderr {text!r}"
    good = result.returncode == code
    if stdout is not None:
        good = good and result.stdout == stdout
    if stderr is not None:
        good = good and re.search(stderr, text) is not None
    if code != 0:  # an error is one line, and is never silent
        good = good and text.strip() != ""
    check(what, good, detail)


class Pty:
    """sluice on a terminal; standard output and error may be something else."""

    def __init__(self, *arguments, env=None, stdout=None, stderr=None):
        self.master, slave = pty.openpty()
        self.text = ""
        self.slave_name = os.ttyname(slave)
        import termios
        self.modes = termios.tcgetattr(slave)

        def own_terminal():
            os.setsid()
            import fcntl
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        self.process = subprocess.Popen([SLUICE, *arguments], stdin=slave, stdout=stdout or slave,
                                        stderr=stderr or slave, env=env or environment(),
                                        preexec_fn=own_terminal, close_fds=True)
        self.slave = slave

    def send(self, text):
        data = text.encode() if isinstance(text, str) else text
        while data:
            # The program's echo has to be taken, or both sides would wait.
            ready, writable, _ = select.select([self.master], [self.master], [], 10)
            if ready:
                self.text += os.read(self.master, 65536).decode(errors="replace")
            if writable:
                data = data[os.write(self.master, data[:512]):]

    def expect(self, pattern, timeout=60):
        """Waits for the pattern in what comes from now on; returns the text up to its end."""
        deadline = time.monotonic() + timeout
        while True:
            match = re.search(pattern, self.text, re.S)
            if match:
                seen, self.text = self.text[:match.end()], self.text[match.end():]
                return seen
            left = deadline - time.monotonic()
            ready, _, _ = select.select([self.master], [], [], max(left, 0))
            if not ready:
                check(f"terminal shows {pattern!r}", False, repr(self.text))
            try:
                data = os.read(self.master, 65536)
            except OSError:
                data = b""
            if not data:
                check(f"terminal shows {pattern!r}", False, repr(self.text))
            self.text += data.decode(errors="replace")

    def interrupt(self):
        self.send("\x03")

    def read(self, timeout):
        """Whether there was something to read."""
        if not select.select([self.master], [], [], timeout)[0]:
            return False
        try:
            self.text += os.read(self.master, 65536).decode(errors="replace")
        except OSError:
            return False
        return True

    def wait(self, timeout=20):
        deadline = time.monotonic() + timeout
        while self.process.poll() is None and time.monotonic() < deadline:
            self.read(0.05)
        while self.read(0):  # its last words
            pass
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            check("the program ends", False, repr(self.text))
        return self.process.returncode

    def modes_kept(self):
        import termios
        return termios.tcgetattr(self.slave) == self.modes
