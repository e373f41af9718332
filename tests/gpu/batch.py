"""batch.py - the largest batch that trains on a device of a fixed size, by allocator.

    batch.py [options] WORKLOADS [NAME...]

WORKLOADS is a folder with workload.py. The device is limited by a filler, taken before the program's first allocation.
Each mode's search widens from the guess of the table until it has a batch that runs and a larger one that does not,
and halves the gap. The searches go on by turns; programs wait with their imports done. A table ends the output.
"""
import argparse
import json
import pathlib
import sys
import time

import modes

IMPORTS = ("transformers", "transformers.models.auto.modeling_auto", "peft")
# name: arguments, bytes of the device, first guess, first stride
WORKLOADS = {
    "opt-1.3b-LR": ("--model opt-1.3b --strategy LR", 16_000_000_000, 32, 4),
    "vicuna-13b-LR": ("--model vicuna-13b --strategy LR", 36_000_000_000, 16, 2),
}


class Search:
    """The largest batch of one mode. Invariant: @good ran, @bad did not, every batch tried is one of the two or beyond."""

    def __init__(self, guess, stride):
        self.next, self.stride = guess, stride
        self.good, self.bad, self.tried = 0, None, []

    def done(self):
        return self.bad is not None and self.bad - self.good <= 1

    def learn(self, ran):
        self.tried.append((self.next, ran))
        if ran:
            self.good = max(self.good, self.next)
        else:
            self.bad = min(self.bad or self.next, self.next)
        if self.bad is None:
            self.next = self.good + self.stride
            self.stride *= 2
        elif self.good == 0:
            self.next = max(1, self.bad - self.stride)
            self.stride *= 2
        else:
            self.next = (self.good + self.bad) // 2


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workloads", type=pathlib.Path)
    parser.add_argument("names", nargs="*", metavar="NAME", help="of: " + ", ".join(WORKLOADS))
    parser.add_argument("--gmlake", default=modes.default_gmlake())
    parser.add_argument("--modes", default="native,expandable,ours")
    parser.add_argument("--limit", type=int, help="bytes of device memory, instead of the table's")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--timeout", type=float, default=120)
    parser.add_argument("--budget", type=float, default=540)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("batch.jsonl"))
    return parser.parse_args()


def start(opt, name, mode):
    arguments, limit, _, _ = WORKLOADS[name]
    return modes.Probe(mode, opt.gmlake, opt.workloads / "workload.py",
                       [*arguments.split(), "--steps", str(opt.steps)], IMPORTS,
                       extra=["--fill", str(opt.limit or limit)])


def attempt(opt, nvml, devices, probe, batch):
    """True: it ran; False: out of memory. Anything else is an error of the test and raises."""
    modes.settle(nvml, devices)
    probe.go(["--batch", str(batch)])
    results, probes, code = probe.finish(opt.timeout)
    if code == 0 and results:
        return True, results[0].get("tok_s")
    if probes and probes[0].get("out_of_memory"):
        return False, None
    raise RuntimeError("too slow" if code is None else modes.last_error(probe.log) + "\n" + "\n".join(probe.log[-15:]))


def search(opt, nvml, devices, name, began):
    """Returns the searches of all modes, finished or as far as the budget went."""
    _, limit, guess, stride = WORKLOADS[name]
    searches = {mode: Search(guess, stride) for mode in opt.modes.split(",")}
    waiting = {mode: start(opt, name, mode) for mode in searches}
    slowest = 10.0
    while not all(one.done() for one in searches.values()):
        for mode, one in searches.items():
            if one.done():
                continue
            if time.monotonic() - began + slowest > opt.budget:
                print("stopped: the rest does not fit the budget")
                break
            probe, waiting[mode] = waiting[mode], start(opt, name, mode)
            start_of_run, batch = time.monotonic(), one.next
            ran, speed = attempt(opt, nvml, devices, probe, batch)
            slowest = max(slowest, time.monotonic() - start_of_run)
            one.learn(ran)
            print(f"{name} {mode} batch {batch}: {'runs' if ran else 'out of memory'}"
                  f"{f', {speed} tokens/s' if speed else ''}  {time.monotonic() - start_of_run:.1f} s", flush=True)
        else:
            continue
        break
    for probe in waiting.values():
        probe.kill()
    with opt.out.open("a") as out:
        for mode, one in searches.items():
            out.write(json.dumps({"workload": name, "mode": mode, "limit": opt.limit or limit, "largest": one.good,
                                  "certain": one.done(), "tried": one.tried}) + "\n")
    return searches


def main():
    opt = options()
    modes.skip_without_gpu()
    nvml = modes.Nvml()
    devices = modes.visible_devices(nvml)[:1]
    began = time.monotonic()
    lines = []
    for name in opt.names or WORKLOADS:
        for mode, one in search(opt, nvml, devices, name, began).items():
            certain = "" if one.done() else " or more (stopped)"
            lines.append(f"| {name} | {(opt.limit or WORKLOADS[name][1]) / 1e9:.0f} | {mode} | {one.good}{certain} |")
    print("\n| workload | device GB | mode | largest batch |\n|---|---|---|---|\n" + "\n".join(lines))
    sys.exit(0)


if __name__ == "__main__":
    main()
