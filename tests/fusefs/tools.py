"""tools.py - tries every tool on every file; prints what is not as it should be.

usage: nodes | tools.py MOUNT PID DIRECTORY: nodes.c says which files there are; the process PID allocates and frees all
the time; DIRECTORY is for files of our own.
"""
import errno
import os
import re
import subprocess
import sys

mount, pid, work = sys.argv[1:]
checks = 0
DENIED = "Permission denied"
NUMBER = r"(\d+|max)\n"
FLAT = r"([a-z_]+ \d+\n)+"

# What each file's text looks like, by its name; files not named here are one number.
FORMS = {
    "version": r"gmlake \d+\.\d+\.\d+ abi \d+\n",
    "metrics": r"(# (HELP|TYPE) [^\n]+\n|[a-z_]+(\{[^\n]*\})? [0-9.]+\n)+",
    "stats": FLAT,
    "events": FLAT,
    "comm": r"fusefs_program\n",
    "container": r"([0-9a-f]{64})?\n",
    "uuid": r"GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\n",
    "procs": r"(\d+\n)+",
    "state": r"running\n",
    "pools": r"(\d+:(primitive|stitched)( [a-z]+=\d+)+\n)+",
    "map": r"(0x[0-9a-f]+ \d+ (live|free) \d+:(primitive|stitched) \d+ \d+ \d+\n)+",
    "trace": r"(on|off)( ring=\d+ recorded=\d+ lost=\d+)?\n",
    ".applied": r"([a-z_]+ want=(default|max|\d+) now=(max|\d+) serial=\d+ seen=\d+\n)+",
}


def complain(what, expected, actual):
    print(f"{what}: expected {expected}, got {actual}"[:400])


def check(what, expected, actual):
    global checks
    checks += 1
    if expected != actual:
        complain(what, expected, actual)


def shell(command, path, text=b""):
    """Runs a line of the shell with the file as $1: exit status 0, what it printed, and what it said on errors."""
    done = subprocess.run(["bash", "-c", command, "tool", path, work], input=text, capture_output=True, timeout=60)
    return done.returncode == 0, done.stdout, done.stderr.decode(errors="replace")


# ---- reading ---------------------------------------------------------------------------------------------------------

READERS = {
    "cat": 'cat "$1"',
    "grep": 'grep -a "" "$1"',
    "head": 'head -n 1000000 "$1"',
    "tail": 'tail -n +1 "$1"',
    "tail -c": 'tail -c 100000000 "$1"',
    "cp": 'cp "$1" "$2/copy" && cat "$2/copy"',
    "dd bs=1": 'dd if="$1" bs=1 status=none',
    "dd bs=16": 'dd if="$1" bs=16 status=none',
    "dd bs=4096": 'dd if="$1" bs=4096 status=none',
    "sed": 'sed -n p "$1"',
    "awk": 'awk 1 "$1"',
    "the shell": 'text=$(<"$1") && printf "%s\\n" "$text"',
}


def python_reads(path, kind):
    with open(path, "rb") as file:
        yield "python read()", file.read()
    with open(path, "rb") as file:
        yield "python lines", b"".join(file)
    if kind == "stream":
        return
    with open(path, "rb", buffering=0) as file:
        yield "python pieces", b"".join(iter(lambda: file.read(7), b""))


def one_moment(what, name, text):
    """Figures of one publication add up; a text of two does not."""
    if name == "stats":
        keys = [line.split()[0] for line in text.splitlines()]
        check(f"{what}: keys once", len(keys), len(set(keys)))
        value = {line.split()[0]: int(line.split()[1]) for line in text.splitlines()}
        check(f"{what}: one moment", value["allocs"] - value["frees"], value["blocks"])
    elif name == "pools":
        for line in text.splitlines():
            value = dict(pair.split("=") for pair in line.split()[1:])
            rest = value["free"] if "free" in value else value["idle"]
            check(f"{what}: one moment", int(value["size"]), int(value["live"]) + int(rest))
    elif name == "map":
        check(f"{what}: one moment", 1, len({line.split()[4] for line in text.splitlines()}))
    elif name == "metrics":
        value = {}
        for figure in "allocs_total", "frees_total", "blocks":
            found = re.search(r'gmlake_process_%s\{pid="%s".*\} (\d+)\n' % (figure, pid), text)
            value[figure] = int(found[1]) if found else -1
        check(f"{what}: one moment", value["allocs_total"] - value["frees_total"], value["blocks"])
        families = re.findall(r"# TYPE (\S+)", text)
        check(f"{what}: families once", len(families), len(set(families)))


def looks_right(what, path, kind, data):
    name = os.path.basename(path)
    if kind == "stream":
        check(f"{what}: whole events", 0, len(data) % 40)
        return
    text = data.decode(errors="replace")
    form = NUMBER if kind == "tunable" else FORMS.get(name, NUMBER)
    if kind == "tunable" and not path.startswith(f"{mount}/{pid}/"):
        form = r"(default|\d+|max)\n"
    check(f"{what}: its form", True, re.fullmatch(form, text) is not None or text)
    one_moment(what, name, text)


def read_by_all(path, kind):
    for tool, command in READERS.items():
        ok, data, said = shell(command, path)
        what = f"{tool} {path}"
        if kind == "stream" and tool in ("grep", "the shell", "sed", "awk"):
            continue  # those are for text
        if kind == "stream" and tool in ("dd bs=1", "dd bs=16"):  # no room for an event, as with inotify(7)
            check(what, (False, True), (ok, "Invalid argument" in said))
            continue
        if tool == "the shell" and path.endswith("/container"):
            data = data.lstrip(b"\n") or b"\n"
        check(f"{what}: {said}", True, ok)
        looks_right(what, path, kind, data)
    for tool, data in python_reads(path, kind):
        looks_right(f"{tool} {path}", path, kind, data)
    ok, data, said = shell('tail -n 1 "$1" | wc -l', path)
    check(f"tail -n 1 {path}", (True, 0 if kind == "stream" else 1), (ok, int(data)))
    if kind != "stream":
        fd = os.open(path, os.O_RDONLY)
        looks_right(f"pread {path}", path, kind, os.pread(fd, 1 << 24, 0))
        check(f"past the end of {path}", b"", os.pread(fd, 100, 1 << 30))
        os.close(fd)
    check(f"size of {path}", 0, os.stat(path).st_size)


def refused_by_all_readers(path):
    for tool, command in READERS.items():
        ok, data, said = shell(command, path)
        check(f"{tool} {path}", (False, True, b""), (ok, DENIED in said, data))


# ---- writing ---------------------------------------------------------------------------------------------------------

# How to write $text to the file, each with one write(2) of all of it.
WRITERS = {
    "echo": 'echo "$text" >"$1"',
    "echo -n": 'echo -n "$text" >"$1"',
    ">>": 'echo "$text" >>"$1"',
    "tee": 'echo "$text" | tee "$1" >/dev/null',
    "tee -a": 'echo "$text" | tee -a "$1" >/dev/null',
    "cp": 'echo "$text" >"$2/value" && cp "$2/value" "$1"',
    "dd bs=4096": 'echo "$text" | dd of="$1" bs=4096 status=none',
    "dd bs=32": 'echo "$text" | dd of="$1" bs=32 iflag=fullblock status=none',
    "dd notrunc": 'echo "$text" | dd of="$1" bs=4096 conv=notrunc status=none',
    "printf of two lines": 'printf "%s\\n%s\\n" "$other" "$text" >"$1"',
    "python": None,
}
# What changes nothing, and is no error.
IDLERS = {": >": ': >"$1"', "truncate": 'truncate -s 0 "$1"', "touch": 'touch "$1"', ">> of nothing": ': >>"$1"'}


def write(command, path, text, other):
    if command is None:
        try:
            with open(path, "w") as file:
                file.write(text)
            return True, ""
        except OSError as error:
            return False, str(error)
    os.environ["text"], os.environ["other"] = text, other
    ok, _, said = shell(command, path)
    return ok, said


def content(path):
    with open(path) as file:
        return file.read().strip()


def settings(path, kind, low, high):
    """Two values that the file takes, and what it shows for them; None: not what was written."""
    name = os.path.basename(path)
    if kind == "tunable":
        top = min(high, 1 << 62)
        values = [str(low + (top - low) // 3), str(low + (top - low) // 2)] if high > 1 else ["0", "1"]
        return [(value, value) for value in values]
    return {"peak": [("0", None), ("reset", None)], "reclaim": [("0", None), ("0K", None)],
            "trace": [("off", "off"), ("on ring=64K", "on")]}[name]


def written_by_all(path, kind, readable, low, high):
    (first, shown_first), (second, shown_second) = settings(path, kind, low, high)
    for turn, (tool, command) in enumerate(WRITERS.items()):
        text, shown = ((first, shown_first), (second, shown_second))[turn % 2]
        other = second if turn % 2 == 0 else first
        ok, said = write(command, path, text, other)
        check(f"{tool} {path}: {said}", True, ok)
        if shown is not None:
            check(f"{tool} {path}", shown, content(path).split()[0])
    before = content(path).split()[0] if readable else None
    for tool, command in IDLERS.items():
        ok, said = write(command, path, "", "")
        check(f"{tool} {path}: {said}", True, ok)
        if shown_first is not None:
            check(f"{tool} {path} changes nothing", before, content(path).split()[0])
    if os.path.basename(path) != "peak":  # which takes anything
        for text, error in ("nonsense", "Invalid argument"), ("", "Invalid argument"), ("1 1", "Invalid argument"):
            ok, said = write(WRITERS["echo"], path, text, "")
            check(f"echo '{text}' {path}", (False, True), (ok, error in said))
        ok, _, said = shell('printf "%05000d" 1 >"$1"', path)
        check(f"5000 bytes {path}", (False, True), (ok, "Argument list too long" in said))
    bytewise(path, kind, low, high)
    ok, said = write('sed -i s/1/2/ "$1"', path, "", "")
    # What can be read can be edited, but nothing can take its place; what cannot is not even read.
    check(f"sed -i {path}", (False, True), (ok, "Operation not permitted" in said or DENIED in said))
    restore(path, kind)


def bytewise(path, kind, low, high):
    """dd bs=1 and 16: each piece is a command of its own, and dd ends with the first that is refused."""
    if kind != "tunable":
        return
    before = content(path)
    ok, said = write('printf "%s" "$text" | dd of="$1" bs=1 status=none', path, "10", "")
    expected = before
    fine = True
    for digit in 1, 0:
        if not low <= digit <= high:
            fine = False
            break
        expected = str(digit)
    check(f"dd bs=1 {path}", (fine, expected), (ok, content(path)))
    text = f"{content(path) if content(path).isdigit() else low:>16}" + "x"
    before = content(path)
    ok, said = write('printf "%s" "$text" | dd of="$1" bs=16 iflag=fullblock status=none', path, text, "")
    check(f"dd bs=16, the rest is refused {path}", (False, True), (ok, "Invalid argument" in said))


def restore(path, kind):
    if kind == "tunable":
        check(f"default {path}", (True, ""), write(WRITERS["echo"], path, "default", ""))
    elif path.endswith("/trace"):
        check(f"off {path}", (True, ""), write(WRITERS["echo"], path, "off", ""))


def refused_by_all_writers(path):
    before = os.stat(path).st_mode
    for tool, command in WRITERS.items():
        if tool == "printf of two lines":
            continue
        ok, said = write(command, path, "1", "1")
        check(f"{tool} {path}", (False, True), (ok, DENIED in said))
    for tool in ": >", "truncate", ">> of nothing":
        ok, said = write(IDLERS[tool], path, "", "")
        check(f"{tool} {path}", (False, True), (ok, DENIED in said))
    ok, said = write('sed -i s/1/2/ "$1"', path, "", "")
    check(f"sed -i {path}", (False, True), (ok, "Operation not permitted" in said))
    check(f"mode of {path}", before, os.stat(path).st_mode)


# ---- all of them -----------------------------------------------------------------------------------------------------

expected = set()
for line in sys.stdin:
    path, access, kind, *limits = line.split()
    path = path.replace("INDEX", "0")
    if path.startswith("PID/"):
        path = pid + path[3:]
    expected.add(path)
    path = f"{mount}/{path}"
    low, high = (int(limit) for limit in limits) if limits else (0, 0)
    if "r" in access:
        read_by_all(path, kind)
    else:
        refused_by_all_readers(path)
    if "w" in access:
        written_by_all(path, kind, "r" in access, low, high)
    else:
        refused_by_all_writers(path)
found = {os.path.relpath(os.path.join(at, name), mount) for at, _, names in os.walk(mount) for name in names}
check("files that are not in the table, or not there", {"self"}, found ^ expected)
print(f"note: {len(expected)} files, {checks} checks")
