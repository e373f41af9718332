"""compare.py - training and serving on the same work under each allocator: memory, speed, and the same numbers.

    compare.py [options] WORKLOADS [NAME...]

WORKLOADS is a folder with workload.py and workload_det.py, which print a RESULT line. NAMEs choose rows of the table
below. One process a run; the next one imports its modules while the current one has the device, and waits. Each result
is appended to --out as a line of JSON, and what is in it already is not run again, so a run that --budget stopped goes
on where it was. At the end a markdown table is printed of all that is known; --table prints it and runs nothing.

live    peak of live bytes as PyTorch counts them in that run: as asked for, where it does not count what it rounds to.
peak    of what NVML says is used on the device.
device  the same, less its value before the first allocation.
E       live / device. Includes what is no allocation at all: kernels loaded late, libraries' own memory. With --warm
        they are loaded by a short run before, in the same process, and E is that of allocations.
E net   the same without that part, as measured in native mode: the peak on the device, less that of PyTorch's segments.

x native    speed by what the script says of its first run.
by steps    speed by the shortest time of each step in all --rounds and in the --repeat more runs of each: what is left
            when the machine's noise is taken away.
"""
import argparse
import json
import pathlib
import sys
import time

import modes

LANGUAGE = ("transformers", "transformers.models.auto.modeling_auto", "peft")
# name: script, arguments, steps, imports, seconds to expect of a run
WORKLOADS = {
    "opt-1.3b-LR": ("workload.py", "--model opt-1.3b --strategy LR --batch 32", 8, LANGUAGE, 9),
    "opt-1.3b-N": ("workload.py", "--model opt-1.3b --strategy N --batch 16", 8, LANGUAGE, 8),
    "opt-1.3b-RO": ("workload.py", "--model opt-1.3b --strategy RO --batch 16", 8, LANGUAGE, 10),
    "gpt2-xl-R": ("workload.py", "--model gpt2-xl --strategy R --batch 16", 8, LANGUAGE, 10),
    "vicuna-13b-LR": ("workload.py", "--model vicuna-13b --strategy LR --batch 16", 5, LANGUAGE, 17),
    "neox-20b-LR": ("workload.py", "--model neox-20b --strategy LR --batch 8", 5, LANGUAGE, 17),
    "llama-8b-S": ("workload.py", "--model llama-8b --strategy S --batch 8", 30, LANGUAGE, 14),
    "qwen-moe-R": ("workload.py", "--model qwen-moe --strategy R --batch 16", 6, LANGUAGE, 11),
    "maskrcnn": ("workload_det.py", "--batch 8", 10, ("torchvision",), 13),
}
GB = 1e9
AHEAD = 9  # programs that wait at a time with --alone


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workloads", type=pathlib.Path)
    parser.add_argument("names", nargs="*", metavar="NAME", help="of: " + ", ".join(WORKLOADS))
    parser.add_argument("--modes", default="native,expandable,async,ours", help="of: " + ", ".join(modes.MODES))
    parser.add_argument("--gmlake", default=modes.default_gmlake(), help="the command")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("compare.jsonl"))
    parser.add_argument("--budget", type=float, default=540, help="seconds; no run is started that may not fit")
    parser.add_argument("--steps", type=float, default=1.0, help="times the steps of the table")
    parser.add_argument("--timeout", type=float, default=120, help="seconds for one run")
    parser.add_argument("--interval", type=float, default=0.002, help="seconds between two samples of NVML")
    parser.add_argument("--alone", action="store_true",
                        help="no imports beside a run that is measured: nine programs import, then run one by one")
    parser.add_argument("--warm", action="store_true", help="count a second run in the same process")
    parser.add_argument("--rounds", type=int, default=1, help="times all is run, by turns")
    parser.add_argument("--repeat", type=int, default=0, help="more runs in each process, for their times alone")
    parser.add_argument("--table", action="store_true", help="only print the table of --out")
    parsed = parser.parse_args()
    unknown = set(parsed.names) - set(WORKLOADS) | set(parsed.modes.split(",")) - set(modes.MODES)
    if unknown:
        parser.error(f"no such workload or mode: {', '.join(sorted(unknown))}")
    return parsed


def read_results(path):
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines() if line]


def start(opt, name, mode):
    script, arguments, steps, imports, _ = WORKLOADS[name]
    extra = ["--repeat", str(opt.repeat), *(["--warm", str(max(3, steps // 3))] if opt.warm else [])]
    steps = max(4, round(steps * opt.steps))
    return modes.Probe(mode, opt.gmlake, opt.workloads / script, [*arguments.split(), "--steps", str(steps)], imports,
                       extra)


def speed(result):
    """Tokens a second as the workload says, or images where it gives only the time of its last steps."""
    if result.get("tok_s"):
        return result["tok_s"]
    return 8 / (sum(result["step_s"]) / len(result["step_s"])) if result.get("step_s") else None


def run(opt, nvml, devices, probe, turn):
    """Gives the device to @probe; what came of it."""
    name, mode, round_of = turn
    modes.settle(nvml, devices)
    sampler = modes.Sampler(nvml, devices, opt.interval)
    began = time.monotonic()
    probe.go()
    results, probes, code = probe.finish(opt.timeout)
    row = {"workload": name, "mode": mode, "round": round_of, "ok": code == 0 and bool(results) and bool(probes)}
    row["run_s"] = round(time.monotonic() - began, 1)
    peak = sampler.stop()[0]
    row["samples"] = sampler.samples
    if probes:
        row.update(probes[0])
        row["peak_device_bytes"] = peak - probes[0]["base_bytes"]
    if results:
        row["result"] = results[0]
        row["speed"] = speed(results[0])
    if not row["ok"]:
        row["why"] = "too slow" if code is None else probes[0].get("error") if probes else modes.last_error(probe.log)
        row["log"] = probe.log[-15:]
    return row


def started(opt, waiting, turns):
    """Starts the programs of the next turns ahead of time, so that their imports are done when they have the device."""
    if opt.alone and not waiting:
        waiting += [start(opt, *turn[:2]) for turn in turns[:AHEAD]]
        for probe in waiting:
            probe.wait_until_ready()
    elif not opt.alone:
        waiting += [start(opt, *turn[:2]) for turn in turns[len(waiting):2]]
    return waiting


def run_all(opt, todo):
    nvml = modes.Nvml()
    devices = modes.visible_devices(nvml)[:1]
    began = time.monotonic()
    took = {}
    waiting = []
    for index, turn in enumerate(todo):
        name, mode, _ = turn
        waiting = started(opt, waiting, todo[index:])
        guess = took.get(name, WORKLOADS[name][4] * max(opt.steps, 1.0) * (1 + opt.repeat / 2))
        if time.monotonic() - began + guess > opt.budget:
            print(f"stopped: {len(todo) - index} runs do not fit the budget; run again to go on", flush=True)
            break
        row = run(opt, nvml, devices, waiting.pop(0), turn)
        took[name] = row["run_s"]
        with opt.out.open("a") as out:
            out.write(json.dumps(row) + "\n")
        device = row.get("peak_device_bytes", 0) / GB
        print(f"{name:14} {mode:12} {'ok' if row['ok'] else 'FAIL ' + str(row['why'])}  {row['run_s']} s, "
              f"device {device:.2f} GB, speed {row.get('speed')}", flush=True)
    for probe in waiting:
        probe.kill()


def losses_compared(row, native):
    mine, theirs = row.get("losses") or [], native.get("losses") or []
    if row.get("tokens") or native.get("tokens"):
        return "same tokens" if row.get("tokens") == native.get("tokens") else "other tokens"
    if len(mine) != len(theirs) or not mine:
        return "none"
    worst = max(abs(a - b) for a, b in zip(mine, theirs))
    return "same" if worst == 0 else f"differ by {worst:.2g}"


def by_steps(rows, name, mode):
    """Microseconds of the steps after the first, the shortest of all runs for each."""
    times = [row["step_us"] for row in rows if (row["workload"], row["mode"]) == (name, mode) and row.get("step_us")]
    return sum(map(min, *times) if len(times) > 1 else times[0]) if times else None


def table_row(row, native, steps):
    live = (row.get("peak_requested_bytes") or row.get("peak_allocated_bytes") or 0) - row.get("base_requested_bytes", 0)
    device = row["peak_device_bytes"]
    ratio = f"{row['speed'] / native['speed']:.3f}" if native.get("speed") and row.get("speed") else ""
    return [row["workload"], row["mode"], f"{(row['base_bytes'] + device) / GB:.3f}", f"{live / GB:.3f}",
            f"{device / GB:.3f}", f"{live / device:.4f}", f"{live / (device - modes.beside(native)):.4f}",
            f"{row.get('speed') or 0:.0f}", ratio, steps, losses_compared(row, native) if native else "",
            str(row["run_s"])]


def print_table(rows):
    latest = {(row["workload"], row["mode"]): row for row in rows}
    head = ["workload", "mode", "peak GB", "live GB", "device GB", "E", "E net", "per second",
            "x native", "by steps", "losses", "run s"]
    print("\n| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for name in WORKLOADS:
        native = latest.get((name, "native"), {})
        native = native if native.get("ok") else {}
        for mode in modes.MODES:
            row = latest.get((name, mode))
            if row is None:
                continue
            steps, base = by_steps(rows, name, mode), by_steps(rows, name, "native")
            ratio = f"{base / steps:.3f}" if steps and base else ""
            cells = table_row(row, native, ratio) if row["ok"] else [name, mode, str(row["why"])[:120]]
            print("| " + " | ".join(cells) + " |" + " |" * (len(head) - len(cells)))


def main():
    opt = options()
    rows = read_results(opt.out)
    if not opt.table:
        modes.skip_without_gpu()
        done = {(row["workload"], row["mode"], row.get("round", 0)) for row in rows if row["ok"]}
        turns = [(name, mode, round_of) for round_of in range(opt.rounds) for name in opt.names or WORKLOADS
                 for mode in opt.modes.split(",")]
        run_all(opt, [turn for turn in turns if turn not in done])
        rows = read_results(opt.out)
    print_table(rows)
    failed = [row for row in {(row["workload"], row["mode"]): row for row in rows}.values() if not row["ok"]]
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
