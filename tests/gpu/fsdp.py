"""fsdp.py - sharded training over all GPUs of a machine, without and with GMLake under the launcher.

    fsdp.py [options] WORKLOADS

WORKLOADS is a folder with workload_fsdp.py. Prints for each strategy, mode and rank the efficiency as compare.py does
(live / device, by PyTorch's count in native mode and NVML's), and the median step time. Exit 1 if a run failed.
"""
import argparse
import json
import pathlib
import statistics
import sys
import time

import modes

GB = 1e9


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workloads", type=pathlib.Path)
    parser.add_argument("--gmlake", default=modes.default_gmlake())
    parser.add_argument("--modes", default="native,ours")
    parser.add_argument("--strategies", default="LR,R")
    parser.add_argument("--gpus", type=int, default=2)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--steps", type=int, default=7)
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--timeout", type=float, default=200, help="seconds for one run")
    parser.add_argument("--budget", type=float, default=560)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("fsdp.jsonl"))
    return parser.parse_args()


def run(opt, nvml, devices, strategy, mode):
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={opt.gpus}"]
    arguments = ["--strategy", strategy, "--batch", str(opt.batch), "--steps", str(opt.steps),
                 "--layers", str(opt.layers)]
    modes.settle(nvml, devices)
    sampler = modes.Sampler(nvml, devices, 0.002)
    began = time.monotonic()
    probe = modes.Probe(mode, opt.gmlake, opt.workloads / "workload_fsdp.py", arguments, launcher=launcher)
    results, probes, code = probe.finish(opt.timeout)
    used = sampler.stop()
    row = {"strategy": strategy, "mode": mode, "ok": code == 0 and len(probes) == len(results) == opt.gpus,
           "run_s": round(time.monotonic() - began, 1), "ranks": []}
    for item in sorted(probes, key=lambda one: one["rank"]):
        result = next((one for one in results if one["rank"] == item["rank"]), {})
        row["ranks"].append({**item, "peak_device_bytes": used[item["rank"]] - item["base_bytes"], "result": result})
    if not row["ok"]:
        row["why"] = "too slow" if code is None else modes.last_error(probe.log)
        row["log"] = probe.log[-30:]
    return row


def step_seconds(rank):
    return statistics.median(rank["result"]["step_s"][2:])


def report(row, native):
    """Prints the lines of one run; @native: the same strategy in native mode."""
    if not row["ok"]:
        print(f"| {row['strategy']} | {row['mode']} | FAIL: {row['why'][:160]} |  |  |  |  |  |  |")
        return
    for index, rank in enumerate(row["ranks"]):
        reference = native["ranks"][index] if native and native["ok"] else rank
        live = reference.get("peak_requested_bytes") or rank["peak_allocated_bytes"]
        device = rank["peak_device_bytes"]
        print(f"| {row['strategy']} | {row['mode']} | {rank['rank']} | {live / GB:.3f} | {device / GB:.3f} | "
              f"{live / device:.4f} | {live / (device - modes.beside(reference)):.4f} | {step_seconds(rank):.3f} | "
              f"{step_seconds(reference) / step_seconds(rank):.3f} |")


def main():
    opt = options()
    modes.skip_without_gpu()
    nvml = modes.Nvml()
    devices = modes.visible_devices(nvml)[:opt.gpus]
    if len(devices) < opt.gpus:
        print(f"skipped: {len(devices)} GPUs, {opt.gpus} needed")
        sys.exit(77)
    began = time.monotonic()
    rows = []
    for strategy in opt.strategies.split(","):
        for mode in opt.modes.split(","):
            if time.monotonic() - began + 90 > opt.budget:
                print("stopped: the rest does not fit the budget")
                break
            rows.append(run(opt, nvml, devices, strategy, mode))
            with opt.out.open("a") as out:
                out.write(json.dumps(rows[-1]) + "\n")
            print(f"{strategy} {mode}: {'ok' if rows[-1]['ok'] else 'FAIL'} {rows[-1]['run_s']} s", flush=True)
            if not rows[-1]["ok"]:
                print("\n".join(rows[-1]["log"]), flush=True)
    print("\n| strategy | mode | rank | live GB | device GB | E | E net | step s | speed x native |\n" + "|---" * 9 + "|")
    for row in rows:
        report(row, next((one for one in rows if (one["strategy"], one["mode"]) == (row["strategy"], "native")), None))
    sys.exit(0 if all(row["ok"] for row in rows) else 1)


if __name__ == "__main__":
    main()
