"""probe.py - runs a PyTorch program, unchanged, and prints what it did with device memory as one PROBE line of JSON.

    probe.py [--wait] [--import MODULE]... [--fill BYTES] [--warm STEPS] [--repeat N] --program SCRIPT [ARGUMENT]...

--wait: does the imports, prints READY, then waits for a line on standard input before it touches the device: a JSON
list of more arguments for SCRIPT. --fill: first takes all device memory but BYTES by a plain driver allocation, which
limits the device for what follows. --warm: before it counts, runs SCRIPT once with --steps STEPS and has PyTorch give
its cache back, so that the kernels and libraries are there that the device loads at their first use. --repeat: after the
run that counts, runs SCRIPT N times more for its times alone.

The values: base_bytes, what NVML says is used on the device before the program's first allocation (with --warm: of the
second run), with the context there, and base_requested_bytes, what PyTorch has in use then; end_used_bytes, the same at
the end; the peaks that PyTorch counts; the losses, or for serving the tokens chosen (copied to pinned memory without
synchronising and without a device allocation); step_us, how long each step after the first took, by the script's list
`marks` of times in microseconds: of all runs the shortest, step by step, for what else a machine does only adds.
"""
import argparse
import contextlib
import ctypes
import gc
import hashlib
import json
import os
import runpy
import sys
import time
import traceback

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import modes  # noqa: E402

RECORDED_MAX = 1 << 16


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--wait", action="store_true")
    parser.add_argument("--import", dest="imports", action="append", default=[])
    parser.add_argument("--fill", type=int)
    parser.add_argument("--warm", type=int)
    parser.add_argument("--repeat", type=int, default=0)
    where = sys.argv.index("--program")
    return parser.parse_args(sys.argv[1:where]), sys.argv[where + 1:]


class Record:
    """Values of device tensors, copied aside in stream order. One pinned buffer a type, so nothing is allocated late."""

    def __init__(self, torch):
        self.torch = torch
        self.on = True
        self.buffers = {dtype: [torch.empty(RECORDED_MAX, dtype=dtype, pin_memory=True), 0]
                        for dtype in (torch.float32, torch.bfloat16, torch.int64)}

    def take(self, value):
        if not self.on:
            return
        value = value.detach().reshape(-1)
        entry = self.buffers.get(value.dtype)
        if entry is None or entry[1] + value.numel() > RECORDED_MAX:
            return
        entry[0][entry[1]:entry[1] + value.numel()].copy_(value, non_blocking=True)
        entry[1] += value.numel()

    def values(self, dtype):
        buffer, used = self.buffers[dtype]
        return buffer[:used].tolist()


def watch(torch, record):
    """Records the loss of every backward pass, and what argmax chooses outside of training."""
    backward = torch.Tensor.backward
    argmax = torch.Tensor.argmax

    def recording_backward(self, *positional, **named):
        if self.is_cuda and self.numel() == 1:
            record.take(self)
        return backward(self, *positional, **named)

    def recording_argmax(self, *positional, **named):
        chosen = argmax(self, *positional, **named)
        if chosen.is_cuda and not torch.is_grad_enabled():
            record.take(chosen)
        return chosen

    torch.Tensor.backward = recording_backward
    torch.Tensor.argmax = recording_argmax


def fill(leave):
    """Takes all memory of the current device but @leave bytes, from the driver and not from any allocator above it."""
    driver = ctypes.CDLL("libcuda.so.1")
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    granularity = 2 << 20
    if driver.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)) != 0 or free.value <= leave:
        raise RuntimeError(f"cannot limit the device to {leave} bytes: {free.value} are free")
    size = (free.value - leave) // granularity * granularity

    class Property(ctypes.Structure):  # CUmemAllocationProp: pinned memory of a device, nothing else
        _fields_ = [("type", ctypes.c_int), ("handles", ctypes.c_int), ("location", ctypes.c_int),
                    ("device", ctypes.c_int), ("metadata", ctypes.c_void_p), ("flags", ctypes.c_ubyte * 8)]

    device = ctypes.c_int()
    driver.cuCtxGetDevice(ctypes.byref(device))
    property_of_it = Property(1, 0, 1, device.value, None)
    handle = ctypes.c_ulonglong()
    code = driver.cuMemCreate(ctypes.byref(handle), ctypes.c_size_t(size), ctypes.byref(property_of_it),
                              ctypes.c_ulonglong(0))
    if code != 0:
        raise RuntimeError(f"the filler of {size} bytes was refused: driver error {code}")
    return size


def run_aside(record, program, more=()):
    """Runs the program unheard and unrecorded; its step times."""
    gc.collect()
    record.on = False
    argv, sys.argv = sys.argv, [*program, *more]
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
        times = step_times(runpy.run_path(program[0], run_name="__main__"))
    sys.argv = argv
    record.on = True
    gc.collect()
    return times


def step_times(names):
    marks = names.get("marks", [])
    return [after - before for before, after in zip(marks, marks[1:])]


def warm_up(torch, record, program, steps):
    """What stays of this run are the kernels it has loaded and PyTorch's workspaces."""
    run_aside(record, program, ["--steps", str(steps)])
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()


def requested(torch, which):
    """Bytes as the program asked for them, where PyTorch counts that; else as it rounds them."""
    counted = torch.cuda.memory_stats()
    return counted.get(f"requested_bytes.all.{which}") or counted[f"allocated_bytes.all.{which}"]


def peaks(torch):
    counted = torch.cuda.memory_stats()
    return {"peak_allocated_bytes": torch.cuda.max_memory_allocated(),
            "peak_requested_bytes": counted.get("requested_bytes.all.peak"),
            "peak_reserved_bytes": torch.cuda.max_memory_reserved(),
            "end_reserved_bytes": torch.cuda.memory_reserved(),
            "retries": counted.get("num_alloc_retries")}


def main():
    options, program = arguments()
    import torch
    for name in options.imports:
        __import__(name)
    if options.wait:
        print("READY", flush=True)
        program += json.loads(sys.stdin.readline())
    started = time.time()
    local = int(os.environ.get("LOCAL_RANK", "0"))
    torch.cuda.set_device(local)
    torch.cuda.synchronize()
    nvml = modes.Nvml()
    device = modes.visible_devices(nvml)[local]
    out = {"rank": local, "backend": torch.cuda.get_allocator_backend()}
    if options.fill is not None:
        out["filler_bytes"] = fill(options.fill)
    record = Record(torch)
    watch(torch, record)
    sys.path.insert(0, os.path.dirname(os.path.abspath(program[0])))
    if options.warm:
        warm_up(torch, record, program, options.warm)
    out["base_requested_bytes"] = requested(torch, "current") if options.warm else 0
    out["base_bytes"] = nvml.used(device)
    sys.argv = program
    torch.manual_seed(0)  # for programs that do not
    code = 0
    try:
        out["step_us"] = step_times(runpy.run_path(program[0], run_name="__main__"))
        out.update(peaks(torch))
        for _ in range(options.repeat):
            torch.manual_seed(0)
            out["step_us"] = list(map(min, out["step_us"], run_aside(record, program)))
    except torch.cuda.OutOfMemoryError as error:
        out["out_of_memory"] = str(error).splitlines()[0]
        code = 3
    except Exception as error:  # the line below still has to be printed
        traceback.print_exc()
        out["error"] = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        if "out of memory" in str(error) or "ALLOC_FAILED" in str(error):  # the second: a library's own
            out["out_of_memory"] = out["error"]
        code = 1
    try:
        torch.cuda.synchronize()
        if code:
            out.update(peaks(torch))
        losses = record.values(torch.float32) + record.values(torch.bfloat16)
        tokens = record.values(torch.int64)
        out["losses"] = losses
        if tokens:
            out["tokens"] = hashlib.sha256(json.dumps(tokens).encode()).hexdigest()[:16]
    except Exception as error:
        out.setdefault("error", f"{type(error).__name__}: {error}")
        code = code or 1
    out["end_used_bytes"] = nvml.used(device)
    out["seconds"] = round(time.time() - started, 2)
    sys.stdout.write("PROBE " + json.dumps(out) + "\n")
    sys.stdout.flush()
    sys.exit(code)


if __name__ == "__main__":
    main()
