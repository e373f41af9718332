"""modes.py - what the scripts of this folder share: the allocators that are compared, NVML, and running one program.

Nothing here imports a framework: NVML is asked through its C library, by the scripts themselves and never by the
programs under test, so that the figures for device memory are nobody's own.
"""
import ctypes
import json
import os
import pathlib
import re
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent

# Every variable by which one of the modes below, or the caller's shell, decides where device memory comes from.
CLEARED = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "PYTORCH_NO_CUDA_MEMORY_CACHING", "LD_PRELOAD",
           "XLA_PYTHON_CLIENT_ALLOCATOR", "XLA_PYTHON_CLIENT_PREALLOCATE", "TF_GPU_ALLOCATOR", "GMLAKE_ENABLE")

# mode: the environment it sets, and how `gmlake run` is called (None: not at all).
MODES = {
    "native": ({}, None),
    "expandable": ({"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}, None),
    "async": ({"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"}, None),
    "native-again": ({}, None),  # how much two runs of the same differ
    "ours": ({}, ["run"]),
    "ours-native": ({}, ["run", "--native"]),
}


def default_gmlake():
    """The command of the build tree, or the installed one."""
    built = HERE.parent.parent / "build" / "release" / "bin" / "gmlake"
    return str(built) if built.exists() else "gmlake"


def command_line(mode, gmlake, program):
    """The argument vector and the environment that run @program in @mode."""
    setting, run = MODES[mode]
    environment = {name: value for name, value in os.environ.items() if name not in CLEARED}
    environment.update(setting)
    return ([gmlake, *run, "--"] if run else []) + list(program), environment


class Memory(ctypes.Structure):
    _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong)]


class Nvml:
    """Used bytes of a device, by its index or its UUID ("GPU-...")."""

    def __init__(self):
        self.library = self.load()
        self.must(self.library.nvmlInit_v2(), "nvmlInit_v2")

    @staticmethod
    def load():
        for name in ("libnvidia-ml.so.1", "/usr/local/nvidia/lib64/libnvidia-ml.so.1"):  # the second: in containers
            try:
                return ctypes.CDLL(name)
            except OSError:
                continue
        raise RuntimeError("no libnvidia-ml.so.1: is NVIDIA's driver installed?")

    @staticmethod
    def must(code, what):
        if code != 0:
            raise RuntimeError(f"{what} failed with NVML error {code}")

    def count(self):
        number = ctypes.c_uint()
        self.must(self.library.nvmlDeviceGetCount_v2(ctypes.byref(number)), "nvmlDeviceGetCount_v2")
        return number.value

    def device(self, which):
        handle = ctypes.c_void_p()
        if isinstance(which, int):
            code = self.library.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(which), ctypes.byref(handle))
        else:
            code = self.library.nvmlDeviceGetHandleByUUID(which.encode(), ctypes.byref(handle))
        self.must(code, f"NVML's look-up of device {which}")
        return handle

    def used(self, device):
        memory = Memory()
        self.must(self.library.nvmlDeviceGetMemoryInfo(device, ctypes.byref(memory)), "nvmlDeviceGetMemoryInfo")
        return memory.used


def visible_devices(nvml):
    """NVML's handles of the devices a CUDA program sees, in its order."""
    listed = os.environ.get("CUDA_VISIBLE_DEVICES")
    if not listed:
        return [nvml.device(index) for index in range(nvml.count())]
    return [nvml.device(int(item) if item.isdigit() else item) for item in listed.split(",")]


class Sampler:
    """Keeps the largest used value of each device, in a thread of this process."""

    def __init__(self, nvml, devices, interval):
        self.nvml, self.devices, self.interval = nvml, devices, interval
        self.peaks = [0] * len(devices)
        self.samples = 0
        self.going = True
        self.thread = threading.Thread(target=self.loop, daemon=True)
        self.thread.start()

    def loop(self):
        while self.going:
            for index, device in enumerate(self.devices):
                self.peaks[index] = max(self.peaks[index], self.nvml.used(device))
            self.samples += 1
            time.sleep(self.interval)

    def stop(self):
        self.going = False
        self.thread.join()
        return self.peaks


def settle(nvml, devices, limit=8.0):
    """Waits until an ended process's memory has been given back; the used values then."""
    last = [nvml.used(device) for device in devices]
    end = time.monotonic() + limit
    quiet = 0
    while time.monotonic() < end and quiet < 3:
        time.sleep(0.1)
        now = [nvml.used(device) for device in devices]
        quiet = quiet + 1 if now == last else 0
        last = now
    return last


def objects_in(line):
    """The JSON objects of a line of output, each with the word before it; ranks may share a line."""
    found = []
    for match in re.finditer(r"(RESULT|PROBE) (?=\{)", line):
        try:
            found.append((match.group(1), json.JSONDecoder().raw_decode(line, match.end())[0]))
        except ValueError:
            pass  # cut short by another process's output
    return found


def beside(native):
    """Bytes of the device at the peak of a run in native mode that PyTorch's allocator had not asked for."""
    return max(0, native["peak_device_bytes"] - native["peak_reserved_bytes"]) if native else 0


class Probe:
    """A program under probe.py that has done its imports and waits for the device."""

    def __init__(self, mode, gmlake, script, arguments, imports=(), extra=(), launcher=()):
        program = [*(launcher or [sys.executable]), str(HERE / "probe.py"), *([] if launcher else ["--wait"])]
        for name in imports:
            program += ["--import", name]
        program += [*extra, "--program", str(script), *arguments]
        argv, environment = command_line(mode, gmlake, program)
        self.log = []
        self.process = subprocess.Popen(argv, env=environment, text=True, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)

    def wait_until_ready(self):
        """Returns when it has done its imports, or has ended without."""
        for line in self.process.stdout:
            if line.rstrip() == "READY":
                return
            self.log.append(line.rstrip())

    def go(self, more=()):
        """Lets it begin, with @more arguments. A program under a launcher has not waited."""
        try:
            self.process.stdin.write(json.dumps(list(more)) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # it ended during its imports; its output says why

    def finish(self, timeout):
        """What it printed: the workload's RESULT objects and the PROBE objects, and its exit code (None: too slow)."""
        timer = threading.Timer(timeout, self.kill)
        timer.start()
        results, probes = [], []
        for line in self.process.stdout:
            found = objects_in(line)
            results += [value for kind, value in found if kind == "RESULT"]
            probes += [value for kind, value in found if kind == "PROBE"]
            if not found and line.rstrip() != "READY":
                self.log.append(line.rstrip())
        code = self.process.wait()
        late = not timer.is_alive()
        timer.cancel()
        return results, probes, None if late else code

    def kill(self):
        try:
            os.killpg(self.process.pid, 9)
        except ProcessLookupError:
            pass


def last_error(log):
    """The line of a program's output that says what went wrong."""
    for line in reversed(log):
        if "Error" in line or "error" in line:
            return line.strip()[:300]
    return log[-1].strip()[:300] if log else "no output"


def skip_without_gpu():
    """Leaves with 77 where there is no GPU or no PyTorch that sees it."""
    if not os.path.exists("/dev/nvidia0"):
        print("skipped: no /dev/nvidia0")
        sys.exit(77)
    found = subprocess.run([sys.executable, "-c", "import importlib.util as u; import sys; "
                            "sys.exit(u.find_spec('torch') is None)"], check=False)
    if found.returncode != 0:
        print("skipped: no PyTorch")
        sys.exit(77)
