"""frameworks.py - one small program for each way in which a framework uses device memory, under GMLake.

    frameworks.py [--gmlake COMMAND] [--only ROW,...] [--budget SECONDS]

Prints a line a row: ok, FAIL, or skip where something is not installed. A row that fails is run again without GMLake in
the same setting; "as without" means that it fails there too, so the framework and not GMLake is the reason. Exit 1 if a
row fails under GMLake alone. `frameworks.py --row NAME` is the program of one row.
"""
import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time

import modes

HERE = pathlib.Path(__file__).resolve().parent
SKIP = 77


def need(condition, what):
    if not condition:
        raise AssertionError(what)


def need_preload():
    """Under GMLake the library is in this process; elsewhere there is nothing to see to."""
    if "gmlake" in os.environ.get("LD_PRELOAD", ""):
        need("libgmlake_preload" in pathlib.Path("/proc/self/maps").read_text(), "the preload library is not mapped")


def torch_statistics():
    """memory_stats and mem_get_info say what was allocated, and memory comes back."""
    import torch
    gib = 1 << 30
    torch.zeros(1, device="cuda")
    torch.cuda.synchronize()
    before, total = torch.cuda.mem_get_info()
    tensors = [torch.empty(gib, dtype=torch.uint8, device="cuda") for _ in range(4)]
    during, same_total = torch.cuda.mem_get_info()
    allocated = torch.cuda.memory_stats()["allocated_bytes.all.current"]
    need(total == same_total == torch.cuda.get_device_properties(0).total_memory, "the device changed its size")
    need(4 * gib <= allocated < 4.1 * gib, f"allocated_bytes {allocated}")
    need(torch.cuda.memory_reserved() >= allocated, "less reserved than allocated")
    need(3.9 * gib <= before - during <= 4.4 * gib, f"mem_get_info fell by {before - during}")
    del tensors
    torch.cuda.synchronize()
    need(torch.cuda.memory_allocated() < 0.1 * gib, "allocated_bytes did not fall")
    need(torch.cuda.max_memory_allocated() >= 4 * gib, "no peak was kept")
    torch.cuda.empty_cache()
    after, _ = torch.cuda.mem_get_info()
    need(before - after < 0.5 * gib, f"empty_cache left {before - after} bytes taken")


def torch_out_of_memory():
    """Too large a request raises PyTorch's own error; the program goes on."""
    import torch
    _, total = torch.cuda.mem_get_info()
    kept = torch.ones(1 << 20, device="cuda")
    for _ in range(3):
        try:
            torch.empty(2 * total, dtype=torch.uint8, device="cuda")
            need(False, "twice the device was granted")
        except torch.cuda.OutOfMemoryError:
            pass
    most = torch.empty(int(0.8 * torch.cuda.mem_get_info()[0]), dtype=torch.uint8, device="cuda")
    del most
    need(float(kept.sum()) == 1 << 20, "contents changed")


def torch_graph():
    """A captured graph with allocations in it, 1000 replays, other work allocating between them."""
    import torch
    torch.manual_seed(1)
    layers = torch.nn.Sequential(*[torch.nn.Linear(512, 512) for _ in range(8)]).cuda()
    static = torch.randn(256, 512, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.no_grad(), torch.cuda.stream(side):
        for _ in range(3):
            layers(static)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(graph):
        result = layers(static) + layers(static * 2)
    worst = 0.0
    for turn in range(1000):
        fresh = torch.randn(256, 512, device="cuda")
        static.copy_(fresh)
        graph.replay()
        if turn % 50 == 0:
            with torch.no_grad():
                expected = layers(fresh) + layers(fresh * 2)
            worst = max(worst, float((expected - result).abs().max()))
    torch.cuda.synchronize()
    need(worst < 1e-3, f"a replay is wrong by {worst}")


def torch_compile():
    """torch.compile(mode="reduce-overhead"), which records CUDA graphs of its own, trains as eager does."""
    import torch
    torch.manual_seed(2)

    def train(step_of):
        torch.manual_seed(3)
        model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.GELU(), torch.nn.Linear(512, 256)).cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        run = step_of(model)
        losses = []
        for _ in range(12):
            batch = torch.randn(128, 256, device="cuda")
            loss = (run(batch) - batch).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            losses.append(loss.item())
        return losses

    eager = train(lambda model: model)
    compiled = train(lambda model: torch.compile(model, mode="reduce-overhead"))
    worst = max(abs(a - b) for a, b in zip(eager, compiled))
    need(worst < 1e-3, f"losses differ by {worst}")


def torch_threads():
    """Two threads with a stream each fill, check and hand over tensors of random sizes."""
    import random
    import torch
    errors = []
    handed = [None, None]
    turn = threading.Barrier(2)

    def work(me):
        try:
            generator = random.Random(me)
            stream = torch.cuda.Stream()
            held = []
            with torch.cuda.stream(stream):
                for step in range(600):
                    size = generator.choice((1 << 12, 1 << 18, 3 << 20, 40 << 20)) + generator.randrange(1 << 12)
                    value = (me * 1000 + step) % 251
                    held.append((torch.full((size,), value, dtype=torch.uint8, device="cuda"), value))
                    if len(held) > 12:
                        tensor, expected = held.pop(generator.randrange(len(held)))
                        if not bool((tensor == expected).all()):
                            errors.append(f"thread {me}, step {step}: contents changed")
                    if step % 40 == 0:
                        event = torch.cuda.Event()
                        event.record(stream)
                        handed[me] = (held[-1], event, stream)
                        turn.wait()
                        (tensor, expected), ready, _ = handed[1 - me]
                        stream.wait_event(ready)
                        tensor.record_stream(stream)
                        if not bool((tensor == expected).all()):
                            errors.append(f"thread {me}, step {step}: a handed tensor changed")
                        turn.wait()
        except Exception as error:  # told by the main thread
            errors.append(repr(error))
            turn.abort()

    threads = [threading.Thread(target=work, args=(me,)) for me in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    need(not errors, "; ".join(errors[:3]))


def jax_async():
    """JAX on the driver's pool: buffers of many shapes, right results, some kept and some dropped."""
    import numpy
    try:
        import jax
        import jax.numpy as jnp
    except ImportError:
        sys.exit(SKIP)
    need(jax.devices()[0].platform in ("gpu", "cuda"), "JAX found no GPU")
    step = jax.jit(lambda a, b: jnp.tanh(a @ b).sum(axis=1))
    generator = numpy.random.default_rng(4)
    kept = []
    for turn in range(60):
        rows, columns = (int(generator.integers(64, 1500)) // 64 * 64 + 64 for _ in range(2))
        a = generator.standard_normal((rows, columns), dtype=numpy.float32)
        b = generator.standard_normal((columns, rows), dtype=numpy.float32)
        result = step(jnp.asarray(a), jnp.asarray(b))
        kept.append((result, numpy.tanh(a.astype(numpy.float64) @ b).sum(axis=1)))
        if len(kept) > 5:
            got, expected = kept.pop(turn % 5)
            need(numpy.abs(numpy.asarray(got) - expected).max() < 2.0, f"turn {turn}: a result is wrong")
    big = [jnp.ones((1 << 28,), jnp.float32) for _ in range(4)]
    need(float(sum(jnp.sum(one) for one in big)) == 4.0 * (1 << 28), "a sum is wrong")


def cupy_pools():
    """CuPy by the driver's pool, and by its own over plain allocations."""
    try:
        import cupy
    except ImportError:
        sys.exit(SKIP)
    import random
    for pool in (cupy.cuda.MemoryAsyncPool(), cupy.cuda.MemoryPool()):
        cupy.cuda.set_allocator(pool.malloc)
        generator = random.Random(5)
        held = []
        for step in range(400):
            size = generator.choice((1 << 10, 1 << 18, 5 << 20)) + generator.randrange(1000)
            held.append((cupy.full((size,), step % 100, dtype=cupy.float32), size, step % 100))
            if len(held) > 20:
                array, length, value = held.pop(generator.randrange(len(held)))
                need(float(array.sum(dtype=cupy.float64)) == float(length) * value, f"step {step}: contents changed")
        held.clear()
        cupy.cuda.Device().synchronize()
        if hasattr(pool, "free_all_blocks"):
            pool.free_all_blocks()
    cupy.cuda.set_allocator(None)


def sanitizer():
    """compute-sanitizer memcheck finds nothing in a small program with kernels, copies, plain and async memory."""
    checker, compiler = shutil.which("compute-sanitizer"), shutil.which("nvcc")
    if checker is None or compiler is None:
        sys.exit(SKIP)
    with tempfile.TemporaryDirectory() as folder:
        program = f"{folder}/small"
        subprocess.run([compiler, "-O1", "-o", program, str(HERE / "small.cu")], check=True)
        # The checker sets LD_PRELOAD for what it starts, so the shell puts what this process has in front of it again.
        mine = os.environ.get("LD_PRELOAD", "")
        inner = f'LD_PRELOAD="{mine}${{LD_PRELOAD:+:$LD_PRELOAD}}" exec {program}' if mine else f"exec {program}"
        done = subprocess.run([checker, "--tool", "memcheck", "--target-processes", "all", "--error-exitcode", "9",
                               "sh", "-c", inner], env={**os.environ, "LD_PRELOAD": ""},
                              text=True, capture_output=True, check=False)
        need(done.returncode == 0 and "small: ok" in done.stdout,
             f"exit {done.returncode}: {(done.stdout + done.stderr)[-600:]}")


def torch_pluggable():
    """The C entry points by CUDAPluggableAllocator and by MemPool; torch_pluggable.py is the program."""
    for way in ("allocator", "pool"):
        done = subprocess.run([sys.executable, str(HERE / "torch_pluggable.py"), way], text=True,
                              capture_output=True, check=False)
        if done.returncode == SKIP:
            sys.exit(SKIP)
        need(done.returncode == 0, f"{way}: {(done.stdout + done.stderr)[-600:]}")


# name: function, the modes to run it in, each with the mode that is the same without GMLake
ROWS = {
    "torch_statistics": (torch_statistics, {"ours": "async", "ours-native": "native"}),
    "torch_out_of_memory": (torch_out_of_memory, {"ours": "async", "ours-native": "native"}),
    "torch_graph": (torch_graph, {"ours": "async", "ours-native": "native"}),
    "torch_compile": (torch_compile, {"ours": "async", "ours-native": "native"}),
    "torch_threads": (torch_threads, {"ours": "async", "ours-native": "native"}),
    "jax_async": (jax_async, {"ours": "native"}),
    "cupy_pools": (cupy_pools, {"ours": "native"}),
    "sanitizer": (sanitizer, {"ours": "native"}),
    "torch_pluggable": (torch_pluggable, {"native": "native"}),
}


def run_row(opt, name, mode):
    """ok, skip or FAIL, with the last thing that was said."""
    argv, environment = modes.command_line(mode, opt.gmlake, [sys.executable, str(HERE / "frameworks.py"), "--row", name])
    environment["GMLAKE_TEST_LIBRARY"] = str(pathlib.Path(opt.gmlake).resolve().parent.parent / "lib" / "libgmlake.so")
    try:
        done = subprocess.run(argv, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=opt.timeout, check=False)
    except subprocess.TimeoutExpired:
        return "FAIL", f"no end within {opt.timeout:.0f} s"
    if done.returncode in (0, SKIP):
        return ("skip" if done.returncode else "ok"), ""
    lines = [line for line in done.stdout.splitlines() if line.strip()]
    return "FAIL", f"exit {done.returncode}: {lines[-1][:300] if lines else ''}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gmlake", default=modes.default_gmlake())
    parser.add_argument("--only", default=",".join(ROWS))
    parser.add_argument("--row", choices=list(ROWS))
    parser.add_argument("--timeout", type=float, default=120, help="seconds for one row")
    parser.add_argument("--budget", type=float, default=400)
    opt = parser.parse_args()
    if opt.row:
        need_preload()
        ROWS[opt.row][0]()
        return
    modes.skip_without_gpu()
    began = time.monotonic()
    failures = 0
    print("| row | mode | result | s | detail |\n|---|---|---|---|---|", flush=True)
    for name in opt.only.split(","):
        for mode, without in ROWS[name][1].items():
            if time.monotonic() - began > opt.budget:
                print(f"| {name} | {mode} | not run |  | the budget is spent |", flush=True)
                continue
            start = time.monotonic()
            result, detail = run_row(opt, name, mode)
            if result == "FAIL" and without != mode:
                other, _ = run_row(opt, name, without)
                detail += " (as without GMLake)" if other == "FAIL" else f" (without GMLake: {other})"
                failures += other != "FAIL"
            elif result == "FAIL":
                failures += 1
            print(f"| {name} | {mode} | {result} | {time.monotonic() - start:.1f} | {detail} |", flush=True)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
