#!/bin/bash
# command.sh - the command `gmlake` as a user meets it: results, messages, exit codes. Needs no daemon and no GPU.
set -u
gmlake=$GMLAKE_TEST_BIN_DIR/gmlake
data=$GMLAKE_TEST_SOURCE_DIR/tests/data
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

# expect CODE WORDS COMMAND...: the exit code, and words that its output (both streams) contains.
expect()
{
    local code=$1 words=$2 got
    shift 2
    "$@" >"$work/out" 2>&1 </dev/null
    got=$?
    if [ "$got" -ne "$code" ] || ! { [ -z "$words" ] || grep -qF -- "$words" "$work/out"; }; then
        printf 'FAILED: %s\n  exit %s, expected %s; expected words: %s\n' "$*" "$got" "$code" "$words"
        sed 's/^/  | /' "$work/out"
        failures=$((failures + 1))
    fi
}

# expect_silent COMMAND...: exit code 0 and no output.
expect_silent()
{
    expect 0 "" "$@"
    if [ -s "$work/out" ]; then
        printf 'FAILED: %s\n  printed:\n' "$*"
        sed 's/^/  | /' "$work/out"
        failures=$((failures + 1))
    fi
}

# expect_json FILTER COMMAND...: valid JSON on every line of standard output, and a Python expression true of each `o`.
expect_json()
{
    local filter=$1
    shift
    "$@" 2>"$work/err" </dev/null >"$work/out"
    if ! python3 - "$filter" "$work/out" <<'END'
import json, sys
lines = open(sys.argv[2]).read().splitlines()
sys.exit(0 if lines and all(eval(sys.argv[1], {"o": json.loads(line)}) for line in lines) else 1)
END
    then
        printf 'FAILED: %s\n  not true of its JSON: %s\n' "$*" "$filter"
        sed 's/^/  | /' "$work/out" "$work/err"
        failures=$((failures + 1))
    fi
}

usage()
{
    expect 2 "which command" "$gmlake"
    expect 2 "no command 'frobnicate'" "$gmlake" frobnicate
    expect 2 "bad option '--frobnicate'" "$gmlake" replay --frobnicate x
    expect 2 "needs an argument" "$gmlake" replay --scale
    expect 2 "which trace" "$gmlake" replay --sim
    expect 2 "not a value it takes" "$gmlake" replay --via smoke x
    expect 2 "not a value it takes" "$gmlake" replay --scale -1 x
    expect 2 "not a value it takes" "$gmlake" replay --scale 0 x
    expect 2 "not a value it takes" "$gmlake" replay --sim=lots x
    expect 2 "not a value it takes" "$gmlake" replay --device-memory 1.0y x
    expect 2 "not a value it takes" "$gmlake" replay --device 1.5 x
    expect 2 "not a value it takes" "$gmlake" replay --rate 0 x
    expect 2 "choose one" "$gmlake" replay --verify --latency x
    expect 2 "no tunable 'stitch'" "$gmlake" replay --set stitch=1 x
    expect 2 "'12Q' is not a value" "$gmlake" replay --set stitch_min=12Q x
    expect 2 "outside its range" "$gmlake" replay --set enabled=7 x
    expect 2 "is not name=value" "$gmlake" run --set enabled true
    expect 2 "which program" "$gmlake" run --sim
    expect 2 "takes no operand" "$gmlake" tunables now
    expect 2 "takes no operand" "$gmlake" version now
    expect 2 "a name and a value" "$gmlake" set stitch_min
    expect 2 "not a process number" "$gmlake" stat -p one
    expect 2 "number of seconds" "$gmlake" stat -i never
    expect 2 "one tunable" "$gmlake" get a b
}

help()
{
    local name
    expect 0 "replay" "$gmlake" help
    expect 0 "replay" "$gmlake" --help
    expect 0 "gmlake " "$gmlake" --version
    expect 2 "no command" "$gmlake" help nothing
    for name in $("$gmlake" help | sed -n 's/^    \([a-z]*\) .*/\1/p'); do
        expect 0 "gmlake $name - " "$gmlake" help "$name"
        expect 0 "EXIT STATUS" "$gmlake" "$name" --help
    done
    expect 0 "stitch_min" "$gmlake" tunables
    expect_json 'len(o) > 5 and all(t["minimum"] <= t["default"] <= t["maximum"] for t in o)' "$gmlake" tunables --json
    if [ -w /dev/full ]; then
        expect 1 "cannot write" sh -c "'$gmlake' help >/dev/full"
    fi
}

malformed_traces()
{
    printf 'a 1 512 0 1\nf 2 0 2\n' >"$work/unknown"
    printf 'a 1 512 0 1\nhello\n' >"$work/words"
    head -c 20000 "$data/unet.gz" >"$work/short.gz"
    : >"$work/empty"
    expect 1 "$work/unknown:2: block 2 is freed but was never allocated" "$gmlake" replay --sim "$work/unknown"
    expect 1 "$work/words:2: unknown operation 'hello'" "$gmlake" replay --sim "$work/words"
    expect 1 "the file is truncated" "$gmlake" replay --sim "$work/short.gz"
    expect 1 "$work/empty: the trace has no operations" "$gmlake" replay --sim "$work/empty"
    expect 1 "$work/nowhere: cannot be opened" "$gmlake" replay --sim "$work/nowhere"
    expect 1 "$work: is a directory" "$gmlake" replay --sim "$work"
    # One bad trace leaves the others alone, and still shows in the exit code.
    expect 1 "unet" "$gmlake" replay --sim "$data/unet.gz" "$work/words"
}

contract='all(k in o for k in ("trace", "ops", "peak_requested_bytes", "peak_reserved_bytes", "efficiency", "ns_per_op",
  "ns_per_op_driver", "first_iteration_driver_us", "steady_driver_calls", "steady_driver_us", "peak_mappings",
  "va_bytes", "oom"))'
contract=${contract//$'\n'/ }

replays()
{
    local via
    for via in core driver; do
        expect_json "$contract and o['oom'] == 0 and 0 < o['efficiency'] <= 1 and o['via'] == '$via' and o['simulated']" \
            "$gmlake" replay --sim=64G --via "$via" --json "$data/unet.gz" "$data/opt-1.3b-LR.gz"
    done
    expect_json 'o["trace"] == "unet" and o["ops"] == 33626 and o["peak_requested_bytes"] == 8564827456 and o["iterations"] == 31' \
        "$gmlake" replay --sim=64G --json "$data/unet.gz"
    expect_json 'o["scale"] == 0.5 and abs(o["peak_requested_bytes"] - 8564827456 / 2) < 1e6' \
        "$gmlake" replay --sim=64G --scale 0.5 --json "$data/unet.gz"
    expect_json 'len(o["iteration_driver_us"]) == 31 and len(o["iteration_driver_calls"]) == 31 and o["p50_ns"] >= 0 and sum(c["calls"] for c in o["calls"].values()) > 0' \
        "$gmlake" replay --sim=64G --iterations --calls --latency --json "$data/unet.gz"
    expect_json 'o["oom"] > 0 and o["peak_requested_bytes"] < 8564827456 / 2 + 1' \
        "$gmlake" replay --sim --device-memory 0.5x --json "$data/unet.gz"
    expect_json 'o["verify_errors"] == 0 and o["driver_violations"] == 0' \
        "$gmlake" replay --sim --verify --scale 0.002 --json "$data/unet.gz"
    expect 0 "unet " "$gmlake" replay --sim=64G "$data/unet.gz"
}

# What a block that stays, a size of zero and several streams come to, by hand.
small_trace()
{
    printf 'a 1 4194304 0 0\na 2 0 1 5\na 3 2097152 2 10\ni 0\nf 1 0 20\nf 2 1 20\na 4 1048576 1 30\ni 1\n' >"$work/small"
    expect_json 'o["ops"] == 6 and o["peak_requested_bytes"] == 6291456 and o["iterations"] == 2 and o["oom"] == 0 and o["later_percent"] is None' \
        "$gmlake" replay --sim --json "$work/small"
}

running()
{
    expect 127 "No such file" "$gmlake" run -- "$work/no-such-program"
    expect 126 "denied" "$gmlake" run -- "$work"
    expect 3 "" "$gmlake" run sh -c 'exit 3'
    expect 0 "libgmlake_preload.so" "$gmlake" run -- printenv LD_PRELOAD
    expect 0 "simcuda" "$gmlake" run --sim=24G -- printenv LD_LIBRARY_PATH
    expect 0 "24G" "$gmlake" run --sim=24G -- printenv SIMCUDA_MEMORY
    expect 0 "64M" "$gmlake" run --set stitch_min=64M -- printenv GMLAKE_STITCH_MIN
    doors
    # Run inside itself, the library is listed once; an option of the program is not ours.
    expect 0 "1" "$gmlake" run "$gmlake" run sh -c 'echo "$LD_PRELOAD" | tr ": " "\n\n" | grep -c gmlake_preload'
    expect 0 "--sim" "$gmlake" run echo --sim
}

# What `run` sets for frameworks, as COMMAND sees it: each of @settings, a NAME=value or a bare NAME that is not set.
# with_settings WORDS OPTION... -- SETTING...: the variables of the caller's environment are in $given.
given=()
with_settings()
{
    local words=$1 options=() setting
    shift
    while [ "$1" != -- ]; do
        options+=("$1")
        shift
    done
    shift
    for setting in "$@"; do
        # shellcheck disable=SC2016
        expect 0 "$words" env -u PYTORCH_CUDA_ALLOC_CONF -u PYTORCH_ALLOC_CONF -u XLA_PYTHON_CLIENT_ALLOCATOR \
            -u XLA_PYTHON_CLIENT_PREALLOCATE -u TF_GPU_ALLOCATOR -u GMLAKE_IPC -u GMLAKE_ENABLE "${given[@]}" \
            "$gmlake" run "${options[@]}" -- sh -c \
            'case $1 in *=*) test "$(printenv "${1%%=*}")" = "${1#*=}" ;; *) ! printenv "$1" ;; esac' sh "$setting"
    done
}

doors()
{
    local none=(PYTORCH_CUDA_ALLOC_CONF XLA_PYTHON_CLIENT_ALLOCATOR XLA_PYTHON_CLIENT_PREALLOCATE TF_GPU_ALLOCATOR)
    with_settings "" -- PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync XLA_PYTHON_CLIENT_ALLOCATOR=cuda_async \
        XLA_PYTHON_CLIENT_PREALLOCATE=false TF_GPU_ALLOCATOR=cuda_malloc_async GMLAKE_IPC PYTORCH_ALLOC_CONF
    with_settings "" --native -- "${none[@]}" GMLAKE_IPC
    with_settings "" --ipc -- "${none[@]}" GMLAKE_IPC=1
    given=(GMLAKE_ENABLE=0)
    with_settings "" -- "${none[@]}"
    given=(GMLAKE_IPC=1)
    with_settings "" -- "${none[@]}"
    # The user's own settings stay, and what they come to is said where the framework's allocator stays on top.
    given=(PYTORCH_ALLOC_CONF=max_split_size_mb:64)
    with_settings "gmlake run: PYTORCH_ALLOC_CONF=max_split_size_mb:64 is kept" -- PYTORCH_CUDA_ALLOC_CONF \
        PYTORCH_ALLOC_CONF=max_split_size_mb:64
    given=(PYTORCH_CUDA_ALLOC_CONF=backend:native XLA_PYTHON_CLIENT_ALLOCATOR=platform)
    with_settings "" -- PYTORCH_CUDA_ALLOC_CONF=backend:native XLA_PYTHON_CLIENT_ALLOCATOR=platform \
        XLA_PYTHON_CLIENT_PREALLOCATE TF_GPU_ALLOCATOR=cuda_malloc_async
    expect_silent env -u PYTORCH_ALLOC_CONF "${given[@]}" "$gmlake" run -- true
    expect_silent env -u PYTORCH_ALLOC_CONF -u PYTORCH_CUDA_ALLOC_CONF "$gmlake" run -- true
    expect_silent env PYTORCH_ALLOC_CONF=mine "$gmlake" run --native -- true
    given=(XLA_PYTHON_CLIENT_PREALLOCATE=true)
    with_settings "" -- XLA_PYTHON_CLIENT_ALLOCATOR=cuda_async XLA_PYTHON_CLIENT_PREALLOCATE=true
    given=()
}

# stat, get and set on a folder that looks like the mount.
mounted()
{
    local mount=$work/mount
    mkdir -p "$mount/4711/tunables" "$mount/tunables"
    echo "gmlake 0.1.0 abi 1" >"$mount/version"
    printf 'processes 1\nreserved 1024\n' >"$mount/stats"
    printf 'age_us 12\nstate running\nratio 0.5\nzeros 007\n' >"$mount/4711/stats"
    local name
    for name in $("$gmlake" tunables | sed -n 's/^\([a-z_]*\) .*/\1/p'); do
        echo 1 >"$mount/tunables/$name"
    done
    echo 64M >"$mount/4711/tunables/stitch_min"
    expect 4 "gmlaked is not mounted at $work" "$gmlake" stat --mount "$work"
    expect 4 "gmlaked is not mounted" "$gmlake" set --mount "$work/nowhere" stitch_min 1
    expect 3 "no process 99 uses GMLake" "$gmlake" stat --mount "$mount" -p 99
    expect 0 "reserved 1024" "$gmlake" stat --mount "$mount"
    expect_json 'o == {"processes": 1, "reserved": 1024}' "$gmlake" stat --mount "$mount" --json
    expect_json 'o == {"age_us": 12, "state": "running", "ratio": 0.5, "zeros": "007"}' \
        "$gmlake" stat --mount "$mount" -p 4711 --json
    expect 0 "64M" "$gmlake" get --mount "$mount" -p 4711 stitch_min
    expect 1 "no tunable 'nothing'" "$gmlake" get --mount "$mount" nothing
    expect 1 "no tunable '../version'" "$gmlake" get --mount "$mount" ../version
    expect 0 "split_min 1" "$gmlake" get --mount "$mount"
    expect_json 'o["stitch_min"] == "1"' "$gmlake" get --mount "$mount" --json
    expect 0 "" "$gmlake" set --mount "$mount" -p 4711 stitch_min 128M
    expect 0 "128M" cat "$mount/4711/tunables/stitch_min"
    expect 0 "" "$gmlake" set stitch_min 32M -p 4711 --mount "$mount"
    expect 0 "32M" cat "$mount/4711/tunables/stitch_min"
    expect 1 "no tunable 'nothing'" "$gmlake" set --mount "$mount" nothing 1
    expect 0 "reserved 1024" timeout -s INT 10 sh -c "'$gmlake' stat --mount '$mount' -i 0.05 | head -n 8"
    rm "$mount/4711/stats"
    expect 3 "has ended" "$gmlake" stat --mount "$mount" -p 4711
}

for part in usage help malformed_traces replays small_trace running mounted; do
    "$part"
done
[ "$failures" -eq 0 ]
