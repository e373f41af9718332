#!/bin/bash
# doctor.sh - each check of `gmlake doctor` finds what it is for, on programs and processes made to have it. No GPU.
set -u
gmlake=$GMLAKE_TEST_BIN_DIR/gmlake
served=$GMLAKE_TEST_BUILD_DIR/tests/tool_served
library=$GMLAKE_TEST_LIB_DIR/libgmlake_preload.so
work=$(mktemp -d)
failures=0
pids=()
unset PYTORCH_CUDA_ALLOC_CONF PYTORCH_ALLOC_CONF XLA_PYTHON_CLIENT_ALLOCATOR XLA_PYTHON_CLIENT_PREALLOCATE \
    TF_GPU_ALLOCATOR PYTORCH_NO_CUDA_MEMORY_CACHING XDG_RUNTIME_DIR LD_PRELOAD
# Libraries are put in front of a sanitizer's runtime here, which it would refuse.
export ASAN_OPTIONS=verify_asan_link_order=0
export GMLAKE_SOCKET=$work/none.sock SIMCUDA_LEAKS=0

clean_up()
{
    [ "${#pids[@]}" -eq 0 ] || kill "${pids[@]}" 2>/dev/null
    rm -rf "$work"
}
trap clean_up EXIT

# finds CODE LINE... -- COMMAND...: the exit code, and for each LINE a line of output that begins with it.
finds()
{
    local code=$1 lines=() line got
    shift
    while [ "$1" != -- ]; do
        lines+=("$1")
        shift
    done
    shift
    timeout 20 "$@" >"$work/out" 2>&1 </dev/null
    got=$?
    for line in "${lines[@]}"; do
        if ! grep -q "^$line" "$work/out"; then
            printf 'no line begins with: %s\n' "$line"
            got="$got and a line is missing"
        fi
    done
    if [ "$got" != "$code" ]; then
        printf 'FAILED: %s\n  exit %s, expected %s\n' "$*" "$got" "$code"
        sed 's/^/  | /' "$work/out"
        failures=$((failures + 1))
    fi
}

# start VARIABLE=VALUE... -- COMMAND...: a process that waits, in $pid, after it has said that it is ready.
start()
{
    local variables=() fifo=$work/in.${#pids[@]} out=$work/out.${#pids[@]}
    while [ "$1" != -- ]; do
        variables+=("$1")
        shift
    done
    shift
    mkfifo "$fifo"
    env "${variables[@]}" "$@" <"$fifo" >"$out" 2>&1 &
    pid=$!
    pids+=("$pid")
    # shellcheck disable=SC2034 # held open: the process stays until it is closed
    exec {keep}>"$fifo"
    for _ in $(seq 200); do
        grep -q ready "$out" && return
        sleep 0.05
    done
    printf 'FAILED: %s does not get ready\n' "$*"
    cat "$out"
    failures=$((failures + 1))
}

# patch FILE KIND: a copy of our program that has become one of another kind, for looking at only.
patch()
{
    cp "$served" "$1"
    python3 - "$1" "$2" <<'SCRIPT'
import struct, sys
path, kind = sys.argv[1:]
data = bytearray(open(path, "rb").read())
table, size, count = struct.unpack_from("<Q", data, 32)[0], *struct.unpack_from("<HH", data, 54)
segments = [table + size * i for i in range(count)]
interpreter = next(at for at in segments if struct.unpack_from("<I", data, at)[0] == 3)
if kind == "static":
    struct.pack_into("<I", data, interpreter, 0)
elif kind == "musl":
    name = b"/lib/ld-musl-x86_64.so.1\0"
    at = struct.unpack_from("<Q", data, interpreter + 8)[0]
    data[at:at + len(name)] = name
elif kind == "narrow":
    data[4] = 1
elif kind == "arm":
    struct.pack_into("<H", data, 18, 183)
elif kind == "damaged":
    struct.pack_into("<Q", data, 32, len(data) - 8)
open(path, "wb").write(data)
SCRIPT
}

usage()
{
    finds 2 "gmlake doctor: 'one' is not a process number" -- "$gmlake" doctor one
    finds 2 "gmlake doctor: '-5'\|gmlake doctor: bad option" -- "$gmlake" doctor -5
    finds 2 "gmlake doctor: one process at a time" -- "$gmlake" doctor 1 2
    finds 3 "gmlake doctor: no process 999999999" -- "$gmlake" doctor 999999999
}

machine()
{
    finds 0 "ok       driver: .*simulated" "ok       devices: device 0" "note     daemon: .*$work/none.sock" \
        "note     mount: " -- "$gmlake" doctor --mount "$work"
    finds 1 "problem  driver: .*does not start: cuInit gives error 100" -- \
        env SIMCUDA_FAIL=cuInit:1:100 "$gmlake" doctor
    finds 1 "problem  devices: device 0, .* no virtual memory management" -- env SIMCUDA_VMM=0 "$gmlake" doctor
    finds 0 "ok       devices: device 0" "ok       devices: device 1" -- env SIMCUDA_DEVICES=2 "$gmlake" doctor
    mkdir "$work/stranger"
    cp "$GMLAKE_TEST_LIB_DIR/libgmlake.so" "$work/stranger/libcuda.so.1"
    finds 1 "problem  driver: libcuda.so.1 lacks functions" -- env LD_LIBRARY_PATH="$work/stranger" "$gmlake" doctor
    if ! ldconfig -p | grep -q libcuda.so.1; then
        finds 1 "problem  driver: no libcuda.so.1" -- env -u LD_LIBRARY_PATH "$gmlake" doctor
    fi
    python3 - "$work/there.sock" <<'SCRIPT' &
import socket, sys, time
listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
listener.bind(sys.argv[1])
listener.listen()
time.sleep(60)
SCRIPT
    pids+=($!)
    for _ in $(seq 100); do
        [ -S "$work/there.sock" ] && break
        sleep 0.05
    done
    mkdir "$work/mount"
    echo "gmlake 0.1.0 abi 1" >"$work/mount/version"
    finds 0 "ok       daemon: gmlaked answers at $work/there.sock" "ok       mount: $work/mount" -- \
        env GMLAKE_SOCKET="$work/there.sock" "$gmlake" doctor --mount "$work/mount"
}

programs()
{
    local kind
    finds 0 "ok       program: $served is dynamically linked" "ok       preload: gmlake run puts $library" \
        "ok       runtime: the program names no CUDA" "ok       frameworks: " -- "$gmlake" doctor -- "$served"
    finds 1 "problem  program: no-such-program is not found" -- "$gmlake" doctor -- no-such-program
    for kind in static musl narrow arm damaged; do
        patch "$work/$kind" "$kind"
    done
    finds 1 "problem  program: .*statically linked" -- "$gmlake" doctor -- "$work/static"
    finds 1 "problem  program: .*musl" -- "$gmlake" doctor -- "$work/musl"
    finds 1 "problem  program: .*32-bit" -- "$gmlake" doctor -- "$work/narrow"
    finds 1 "problem  program: .*another processor" -- "$gmlake" doctor -- "$work/arm"
    finds 1 "problem  program: .*neither an ELF program" -- "$gmlake" doctor -- "$work/damaged"
    cp "$served" "$work/setuid"
    chmod u+s "$work/setuid"
    finds 1 "problem  program: .*set-uid" -- "$gmlake" doctor -- "$work/setuid"
    cp "$served" "$work/setgid"
    chmod g+sx "$work/setgid"
    finds 1 "problem  program: .*set-gid" -- "$gmlake" doctor -- "$work/setgid"
    cp "$served" "$work/capable"
    if python3 -c 'import os, sys; os.setxattr(sys.argv[1], "security.capability", bytes.fromhex("0100000200040000") + bytes(12))' \
        "$work/capable" 2>/dev/null; then
        finds 1 "problem  program: .*given capabilities" -- "$gmlake" doctor -- "$work/capable"
    fi
    printf '#!%s nothing\n' "$work/static" >"$work/script"
    printf '#!/usr/bin/env -S %s nothing\n' "$work/musl" >"$work/by-env"
    chmod +x "$work/script" "$work/by-env"
    finds 1 "problem  program: $work/static is statically" -- "$gmlake" doctor -- "$work/script" a b
    finds 1 "problem  program: $work/musl is a program for musl" -- env PATH="$work:$PATH" "$gmlake" doctor -- by-env
    echo "no program" >"$work/text"
    chmod +x "$work/text"
    finds 1 "problem  program: $work/text: is neither" -- "$gmlake" doctor -- "$work/text"
}

settings()
{
    finds 1 "problem  switches: GMLAKE_ENABLE=0" -- env GMLAKE_ENABLE=0 "$gmlake" doctor -- "$served"
    finds 0 "note     switches: GMLAKE_ENABLE=no" -- env GMLAKE_ENABLE=no "$gmlake" doctor -- "$served"
    finds 1 "problem  switches: GMLAKE_IPC=1" -- env GMLAKE_IPC=1 "$gmlake" doctor -- "$served"
    finds 0 "note     switches: GMLAKE_ENABLED=0" -- env GMLAKE_ENABLED=0 "$gmlake" doctor -- "$served"
    finds 0 "ok       settings: GMLAKE_STITCH_MIN=64M" "note     settings: nobody reads GMLAKE_STICH_MIN" \
        "note     settings: GMLAKE_SPLIT_MIN=12Q is ignored" -- \
        env GMLAKE_STITCH_MIN=64M GMLAKE_STICH_MIN=1 GMLAKE_SPLIT_MIN=12Q "$gmlake" doctor -- "$served"
    # A finding is one line, whatever a variable holds.
    finds 0 "note     settings: nobody reads GMLAKE_X=a?b" -- env GMLAKE_X=$'a\nb' "$gmlake" doctor -- "$served"
}

frameworks()
{
    finds 1 "problem  frameworks: PyTorch maps its segments itself (PYTORCH_ALLOC_CONF=expandable" -- \
        env PYTORCH_ALLOC_CONF=expandable_segments:True "$gmlake" doctor -- "$served"
    finds 0 "note     frameworks: PyTorch's own allocator is on top" -- \
        env PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:64 "$gmlake" doctor -- "$served"
    finds 0 "ok       frameworks: PyTorch asks for each" -- \
        env PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync,pinned_use_background_threads:True "$gmlake" doctor -- "$served"
    finds 0 "ok       frameworks: PyTorch asks for each.*PYTORCH_NO_CUDA" -- env PYTORCH_CUDA_ALLOC_CONF= \
        PYTORCH_NO_CUDA_MEMORY_CACHING=1 "$gmlake" doctor -- "$served"
    finds 1 "problem  frameworks: JAX's own allocator is on top (.*=bfc) and takes" -- \
        env XLA_PYTHON_CLIENT_ALLOCATOR=bfc "$gmlake" doctor -- "$served"
    finds 0 "note     frameworks: JAX's own allocator is on top (.*=bfc):" -- env XLA_PYTHON_CLIENT_ALLOCATOR=bfc \
        XLA_PYTHON_CLIENT_PREALLOCATE=false "$gmlake" doctor -- "$served"
    finds 0 "note     frameworks: JAX takes three quarters" -- \
        env XLA_PYTHON_CLIENT_PREALLOCATE=true "$gmlake" doctor -- "$served"
    finds 0 "ok       frameworks: JAX asks for each.*platform" -- \
        env XLA_PYTHON_CLIENT_ALLOCATOR=platform "$gmlake" doctor -- "$served"
    finds 1 "problem  frameworks: TensorFlow's own allocator" -- env TF_GPU_ALLOCATOR=bfc "$gmlake" doctor -- "$served"
}

processes()
{
    local plain started
    start -- "$served" driver
    plain=$pid
    finds 1 "ok       driver: /.*simulated" "ok       program: $served" "ok       runtime: no libcudart" \
        "problem  preload: .*LD_PRELOAD does not name it" -- "$gmlake" doctor "$plain"
    start LD_PRELOAD=/nowhere/libgmlake_preload.so -- "$served" nothing
    finds 1 "note     driver: the process has not loaded it" "problem  preload: LD_PRELOAD=/nowhere" -- \
        "$gmlake" doctor "$pid"
    start -- "$gmlake" run -- "$served" memory
    started=$pid
    finds 0 "ok       preload: $library is in the process" "note     served: cannot be told without" -- \
        "$gmlake" doctor --mount "$work" "$started"
    mkdir -p "$work/other"
    cp "$library" "$work/other/"
    start LD_PRELOAD="$work/other/libgmlake_preload.so" -- "$gmlake" run -- "$served" nothing
    finds 1 "problem  preload: two copies of GMLake" -- "$gmlake" doctor "$pid"
    start LD_PRELOAD="$work/other/libgmlake_preload.so" -- "$served" nothing
    finds 0 "note     preload: .*of another installation" -- "$gmlake" doctor "$pid"
    rm "$work/other/libgmlake_preload.so"
    finds 0 "note     preload: .*replaced or removed" -- "$gmlake" doctor "$pid"
    start LD_PRELOAD="$GMLAKE_TEST_LIB_DIR/libgmlake.so" -- "$gmlake" run -- "$served" nothing
    finds 0 "note     preload: $library is in the process and so is .*libgmlake.so" -- "$gmlake" doctor "$pid"
    figures "$started"
    kill "$started"
    wait "$started" 2>/dev/null
    finds 3 "gmlake doctor: no process $started" -- "$gmlake" doctor "$started"
}

# What the mount says of process $1, from a folder that looks like the mount.
figures()
{
    local folder=$work/figures/$1
    mkdir -p "$work/figures"
    echo "gmlake 0.1.0 abi 1" >"$work/figures/version"
    finds 0 "note     served: gmlaked does not know the process" -- "$gmlake" doctor --mount "$work/figures" "$1"
    mkdir -p "$folder/tunables"
    printf 'age_us 5\nrequested 0\nallocs 0\noom 0\n' >"$folder/stats"
    echo running >"$folder/state"
    echo 1 >"$folder/tunables/enabled"
    finds 0 "note     served: nothing so far" -- "$gmlake" doctor --mount "$work/figures" "$1"
    printf 'age_us 5\nrequested 1073741824\nreserved 2147483648\nallocs 12\noom 3\n' >"$folder/stats"
    finds 0 "ok       served: 12 allocations so far; 1.00 GiB live, 2.00 GiB held" "note     served: 3 requests" -- \
        "$gmlake" doctor --mount "$work/figures" "$1"
    echo stopped >"$folder/state"
    echo 0 >"$folder/tunables/enabled"
    finds 1 "note     served: the process is stopped" "problem  served: the tunable enabled is 0" -- \
        "$gmlake" doctor --mount "$work/figures" "$1"
}

# Libraries by which a process is known to use a framework: any will do under the name.
mapped_frameworks()
{
    local name
    for name in libtorch_cuda.so xla_cuda_plugin.so libtensorflow_framework.so libcudart.so.13; do
        cp "$GMLAKE_TEST_BUILD_DIR/tests/libtool_empty.so" "$work/$name"
    done
    start LD_PRELOAD="$work/libtorch_cuda.so:$work/xla_cuda_plugin.so:$work/libtensorflow_framework.so:$work/libcudart.so.13" \
        -- "$gmlake" run -- "$served" nothing
    finds 0 "ok       frameworks: PyTorch asks" "ok       frameworks: JAX asks" "ok       frameworks: TensorFlow asks" \
        "ok       runtime: $work/libcudart.so.13" -- "$gmlake" doctor "$pid"
    start LD_PRELOAD="$work/libtorch_cuda.so" -- "$gmlake" run --native -- "$served" nothing
    finds 0 "note     frameworks: PyTorch's own allocator is on top (PYTORCH_CUDA_ALLOC_CONF=(not set))" -- \
        "$gmlake" doctor "$pid"
    start LD_PRELOAD="$work/xla_cuda_plugin.so" -- "$gmlake" run --native -- "$served" nothing
    finds 1 "problem  frameworks: JAX's own allocator" -- "$gmlake" doctor "$pid"
}

# The real daemon, where file systems can be mounted: what a process was really served.
daemon()
{
    local mount=$work/real
    mkdir "$mount"
    "$GMLAKE_TEST_BIN_DIR/gmlaked" --mountpoint "$mount" --socket "$work/run/gmlaked.sock" 2>"$work/daemon.log" &
    pids+=($!)
    for _ in $(seq 100); do
        [ -e "$mount/version" ] && break
        kill -0 "${pids[-1]}" 2>/dev/null || break
        sleep 0.05
    done
    if [ ! -e "$mount/version" ]; then
        echo "left out: gmlaked cannot mount here"
        return
    fi
    start GMLAKE_SOCKET="$work/run/gmlaked.sock" -- "$gmlake" run -- "$served" memory
    for _ in $(seq 100); do
        [ -e "$mount/$pid/stats" ] && ! grep -q '^allocs 0$' "$mount/$pid/stats" && break
        sleep 0.05
    done
    # The daemon is found by the environment of the process, not of the doctor.
    finds 0 "ok       daemon: gmlaked answers at $work/run/gmlaked.sock" "ok       mount: $mount" \
        "ok       served: 1 allocations so far; 8.00 MiB live" -- "$gmlake" doctor --mount "$mount" "$pid"
    kill "$pid"
    kill "${pids[-2]}"
    wait "${pids[-2]}"
}

for part in usage machine programs settings frameworks processes mapped_frameworks daemon; do
    "$part"
done
[ "$failures" -eq 0 ]
