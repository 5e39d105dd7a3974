"""Copies of a model on file systems that want reads of different alignment: disk, memory, and, where they
can be had (as root), disks of 512-byte and of 4096-byte sectors."""
import atexit
import json
import os
import re
import shutil
import subprocess
import sys


def have(*command):
    """What the command printed if it succeeded, else None; why it did not is printed here."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60)
    except OSError as error:
        print(f"      {command[0]}: {error}")
        return None
    if done.returncode != 0:
        print(f"      {' '.join(command)}: exit {done.returncode}: {done.stdout.decode(errors='replace').strip()}")
        return None
    return done.stdout.decode().strip() or "done"


# Mounts of a process of its own are gone with it, however it ends, and their loop devices too.
if "--own-mounts" not in sys.argv and have("unshare", "--mount", "true"):
    os.execvp("unshare", ["unshare", "--mount", sys.executable, os.path.abspath(__file__), "--own-mounts"])

from cli import ANSWER, QUESTION, TINY, check, check_run, run, run_cutting, temp_folder

disk, memory = temp_folder("sluice-alignment-"), "/dev/shm"
if not os.path.isdir(memory) or not os.access(memory, os.W_OK):
    print("no /dev/shm: nothing is read from memory")
    memory = disk
MACHINE = ("--ram", "1GiB", "--device", "cpu", "-c", "4096")


def sectors(size):
    """A folder on a disk with sectors of so many bytes, or None."""
    if "--own-mounts" not in sys.argv:
        return None
    image, folder = os.path.join(disk, f"image-{size}"), os.path.join(disk, f"sectors-{size}")
    os.mkdir(folder)
    with open(image, "wb") as file:
        file.truncate(256 << 20)
    device = have("losetup", "--find", "--show", "--sector-size", str(size), image)
    if not device:
        return None
    mounted = have("mkfs.ext4", "-q", "-F", "-b", "4096", device) and have("mount", device, folder)
    # One that is mounted stays until it is no longer.
    subprocess.run(["losetup", "--detach", device], check=False)
    if not mounted:
        return None
    atexit.register(subprocess.run, ["umount", "--lazy", folder], check=False)
    return folder


def copy_of_model(folder, name):
    place = os.path.join(folder, name)
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(TINY, place)
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    return place


def alignment(model):
    return {shard["alignment"] for shard in json.loads(run("inspect", model, "--json").stdout)["shards"]}


def sizes(text):
    return re.findall(r"^\s+(ram|vram)\s+([\d.]+ \S+)  (?!of )(.*)$", text.decode(), re.M)


def check_pair(what, first, second):
    """A model in `first` with a mirror in `second`: run, planned, inspected, and with either of them failing."""
    name = f"sluice-alignment-{os.getpid()}"
    model, mirror = copy_of_model(first, name + "-model"), copy_of_model(second, name + "-mirror")
    what += f", alignments {alignment(model)} and {alignment(mirror)}"
    both = (model, "--mirror", mirror)
    ask = (*both, "-p", QUESTION, "--temp", "0", "--cache-slots", "off")
    result = run(*ask, "--json")
    check_run(f"{what}: it runs", result, 0)
    report = json.loads(result.stdout)
    check("with the answer of one copy", report["text"] + "\n" == ANSWER.decode(), report["text"])
    check("read from both", all(drive["state"] != "left out" and drive["bytes"] > 0
                                for drive in report["io"]["drives"]), report["io"])
    planned, ran = run("plan", *both, *MACHINE), run(*both, "-p", QUESTION, "-n", "1", "--stats", *MACHINE)
    check_run("plan", planned, 0)
    check("its placement is what the engine prints", sizes(planned.stdout) == sizes(ran.stderr) and
          len(sizes(ran.stderr)) >= 5, (planned.stdout, ran.stderr))
    check_run("the copies are compared", run("inspect", *both, "--check"), 0)
    for failing, other in ((0, 1), (1, 0)):
        model, mirror = copy_of_model(first, name + "-model"), copy_of_model(second, name + "-mirror")
        result = run_cutting((model, mirror)[failing], *ask, "--io", "paced:8MB", "--json")
        check_run(f"{('the model', 'the mirror')[failing]} fails while it is loaded", result, 0)
        report = json.loads(result.stdout)
        drives = report["io"]["drives"]
        check("the other copy takes its place", report["text"] + "\n" == ANSWER.decode() and
              drives[failing]["state"] == "left out" and drives[other]["expert_share"] == 1, report)


check_pair("disk, mirror in memory", disk, memory)
check_pair("memory, mirror on disk", memory, disk)
small, large = sectors(512), sectors(4096)
if small and large:
    copies = [alignment(copy_of_model(folder, "probe")) for folder in (small, large)]
    check("the disks differ in what they want", copies == [{512}, {4096}], copies)
    check_pair("sectors of 512 bytes, mirror on 4096", small, large)
    check_pair("sectors of 4096 bytes, mirror on 512", large, small)
else:
    print("no loop devices here (see above): the rest, disks of 512 and 4096 bytes a sector, is left to where they are")
