#!/bin/bash
# floor.sh FOLDER [ROUNDS] - what a cached allocation costs through PyTorch, against the floor of that way.
# FOLDER holds replay_torch.cpp, which prints "MICRO pair SIZE B: X ns" for a pair of allocate and free by PyTorch's own
# allocator interface. The floor is the same program on floor.c. All sides run by turns, ROUNDS (5) times. The best of
# each counts, for whatever else the machine does only adds (medians of the same runs were apart by half); exit 1 if ours
# takes more than 1.15 times the floor.
set -u -o pipefail
folder=${1:?usage: floor.sh FOLDER [ROUNDS]}
rounds=${2:-5}
here=$(cd "$(dirname "$0")" && pwd)
gmlake=${GMLAKE:-$here/../../build/release/bin/gmlake}
python=${PYTHON:-python3}

if [ ! -e /dev/nvidia0 ] || ! command -v g++ >/dev/null || ! torch=$("$python" -c 'import torch, os; print(os.path.dirname(torch.__file__))' 2>/dev/null); then
    echo "skipped: needs a GPU, PyTorch with its headers, and g++"
    exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
runtime=$(find "$torch/../nvidia" -name 'libcudart.so.1[0-9]' 2>/dev/null | head -n 1)
cuda=${CUDA_HOME:-/usr/local/cuda}
headers=$cuda/include
[ -e "$headers/cuda_runtime_api.h" ] || headers=$(dirname "$(find "$torch/../nvidia" -name cuda_runtime_api.h | head -n 1)")

cc -O2 -fPIC -shared -o "$work/floor.so" "$here/floor.c" -ldl || exit 1
g++ -O2 -std=c++17 "$folder/replay_torch.cpp" -o "$work/replay" -I"$torch/include" \
    -I"$torch/include/torch/csrc/api/include" -I"$headers" -L"$torch/lib" -ltorch -ltorch_cpu -ltorch_cuda -lc10 \
    -lc10_cuda "$runtime" -Wl,-rpath,"$torch/lib:$(dirname "$runtime")" || exit 1

unset PYTORCH_CUDA_ALLOC_CONF PYTORCH_ALLOC_CONF LD_PRELOAD
side()
{
    case $1 in
        native) "$work/replay" ;;
        expandable) PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True "$work/replay" ;;
        async) PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync "$work/replay" ;;
        floor) PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync LD_PRELOAD=$work/floor.so "$work/replay" ;;
        ours) "$gmlake" run -- "$work/replay" ;;
    esac
}

for ((round = 0; round < rounds; round++)); do
    for name in native expandable async floor ours; do
        timeout 60 bash -c "$(declare -f side); work=$work; gmlake=$gmlake; side $name" 2>>"$work/errors" |
            sed -n "s/^MICRO pair \([0-9]*\) B: \([0-9.]*\) ns/$name \1 \2/p" >>"$work/times"
    done
done

if ! grep -q '^FLOOR served [1-9]' "$work/errors"; then
    cat "$work/errors"
    echo "the floor served nothing: there is nothing to compare with"
    exit 1
fi
grep '^FLOOR' "$work/errors" | tail -n 1
"$python" - "$work/times" <<'SCRIPT'
import collections, statistics, sys
times = collections.defaultdict(list)
for line in open(sys.argv[1]):
    name, size, nanoseconds = line.split()
    times[name, int(size)].append(float(nanoseconds))
sizes = sorted({size for _, size in times})
print("| pair, ns: best (median) | " + " | ".join(f"{size} B" for size in sizes) + " |\n" + "|---" * (len(sizes) + 1) + "|")
for name in ("native", "expandable", "async", "floor", "ours"):
    print(f"| {name} | " + " | ".join(f"{min(times[name, size]):.0f} ({statistics.median(times[name, size]):.0f})"
                                        if times[name, size] else "none" for size in sizes) + " |")
if not sizes or any(not times[name, size] for name in ("floor", "ours") for size in sizes):
    sys.exit("no figures for the floor or for ours")
ratios = [min(times["ours", size]) / min(times["floor", size]) for size in sizes]
print("| ours / floor | " + " | ".join(f"{ratio:.3f}" for ratio in ratios) + " |")
sys.exit(0 if max(ratios) <= 1.15 else 1)
SCRIPT
