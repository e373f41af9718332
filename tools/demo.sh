#!/bin/bash
# demo.sh - builds GMLake and shows it at work: recorded training runs without and with it, then one live, watched and
# tuned through the mount. On the real GPU where there is one, else on the simulated driver. Leaves nothing behind.
set -u -o pipefail
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

usage()
{
    cat <<'END'
usage: tools/demo.sh [--sim] [--private] [TRACE...]

  --sim      on the simulated driver, even where there is a GPU
  --private  a mount and socket of its own, even where /gmlake is free
  TRACE      recorded runs to replay instead of those of the project
END
}

force_sim=
private=
traces=()
while [ $# -gt 0 ]; do
    case "$1" in
    --sim) force_sim=1 ;;
    --private) private=1 ;;
    --help | -h)
        usage
        exit 0
        ;;
    -*)
        usage >&2
        exit 2
        ;;
    *)
        [ -r "$1" ] || die "$1: no such trace"
        traces+=("$(realpath "$1")")
        ;;
    esac
    shift
done

bin=$root_dir/build/release/bin
scratch=''
mount=''
daemon=''
program=''

# --- what is cleaned up, however this ends -----------------------------------------------------------------------
stop()
{
    local pid=$1 tries
    [ -n "$pid" ] && kill "$pid" 2>/dev/null || return 0
    for ((tries = 0; tries < 50; tries++)); do
        kill -0 "$pid" 2>/dev/null || break
        sleep 0.1
    done
    kill -KILL "$pid" 2>/dev/null
    wait "$pid" 2>/dev/null
}

clean_up()
{
    local code=$?
    trap - EXIT INT TERM HUP
    stop "$program"
    stop "$daemon"
    if [ -n "$mount" ] && mountpoint -q "$mount"; then
        fusermount3 -u "$mount" 2>/dev/null || as_root umount -l "$mount"
    fi
    [ -z "$scratch" ] || rm -rf "$scratch"
    exit "$code"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# --- words -------------------------------------------------------------------------------------------------------
# show COMMAND...: prints the command as one would type it, and runs it.
show()
{
    printf '\n%s$ %s%s\n' "$bold" "$*" "$plain"
    eval "$*"
}

# field NAME LINE: the number of that name in a line of JSON.
field()
{
    sed -n "s/.*\"$1\": *\([-0-9.eE+]*\).*/\1/p" <<<"$2"
}

# key NAME: the value of that key in the program's stats.
key()
{
    awk -v name="$1" '$1 == name { print $2 }' "$mount/$program/stats"
}

gib()
{
    awk -v bytes="$1" 'BEGIN { printf "%.2f", bytes / 1073741824 }'
}

# --- the parts ---------------------------------------------------------------------------------------------------
build()
{
    headline "building"
    need_packages "${build_packages[@]}" gzip
    local started=$SECONDS
    build_preset release -- --target gmlake_command gmlaked gmlake gmlake_preload simcuda manual || exit 1
    note "built in $((SECONDS - started)) s: $bin"
}

choose_driver()
{
    if [ -z "$force_sim" ] && [ -e /dev/nvidia0 ]; then
        sim=()
        note "on the real GPU: $(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -n 1)"
    else
        sim=(--sim)
        note "no GPU is used: libcuda.so.1 is the simulated driver"
    fi
}

choose_traces()
{
    [ "${#traces[@]}" -eq 0 ] || return 0
    traces=("$root_dir/tests/data/opt-1.3b-LR.gz" "$root_dir/tests/data/unet.gz")
    local larger=$root_dir/../shared/traces name
    for name in gpt2-xl-R maskrcnn qwen-moe-R vicuna-13b-LR; do
        [ -r "$larger/$name.gz" ] && traces+=("$(realpath "$larger/$name.gz")")
    done
}

# quietly COMMAND...: what it says on standard error is shown only if it fails.
quietly()
{
    "$@" 2>"$scratch/errors" || {
        cat "$scratch/errors" >&2
        die "failed: $*"
    }
}

# The same requests twice, through the same door: the driver's own pool answers, and then GMLake in front of it.
compare()
{
    headline "recorded training runs: the driver's own pool, and GMLake"
    note "efficiency = peak of the bytes the program asked for / peak of the bytes taken from the device"
    printf '\n%s%-18s %9s %10s | %10s %8s | %10s %8s%s\n' "$bold" \
        "trace" "requests" "asked GiB" "driver GiB" "" "GMLake GiB" "" "$plain"
    local trace without with mean=0
    for trace in "${traces[@]}"; do
        without=$(quietly "$bin/gmlake" replay --via driver "${sim[@]}" --json "$trace") || exit 1
        with=$(quietly "$bin/gmlake" run "${sim[@]}" -- "$bin/gmlake" replay --via driver --json "$trace") || exit 1
        printf '%-18s %9d %10s | %10s %7.2f%% | %10s %s%7.2f%%%s\n' "$(basename "$trace" .gz)" "$(field ops "$with")" \
            "$(gib "$(field peak_requested_bytes "$with")")" \
            "$(gib "$(field peak_reserved_bytes "$without")")" "$(percent "$without")" \
            "$(gib "$(field peak_reserved_bytes "$with")")" "$green" "$(percent "$with")" "$plain"
        mean=$(awk -v sum="$mean" -v next_one="$(percent "$with")" 'BEGIN { print sum + next_one }')
    done
    printf '%-18s %9s %10s | %10s %8s | %10s %s%7.2f%%%s\n' "mean" "" "" "" "" "" "$green" \
        "$(awk -v sum="$mean" -v count="${#traces[@]}" 'BEGIN { print sum / count }')" "$plain"
}

percent()
{
    awk -v efficiency="$(field efficiency "$1")" 'BEGIN { print 100 * efficiency }'
}

# As root on /gmlake, unless somebody is there already; else on a mountpoint of our own.
start_daemon()
{
    local options=()
    mount=/gmlake
    if [ -n "$private" ] || [ "$(id -u)" -ne 0 ] || mountpoint -q /gmlake || [ -e /run/gmlake/gmlaked.sock ]; then
        mount=$scratch/gmlake
        export GMLAKE_SOCKET=$scratch/gmlaked.sock
        options=(--mountpoint "$mount" --socket "$GMLAKE_SOCKET")
    fi
    "$bin/gmlaked" "${options[@]}" 2>"$scratch/daemon.log" &
    daemon=$!
    wait_for "the mount" mountpoint -q "$mount"
}

# wait_for WHAT COMMAND...: until it succeeds, at most ten seconds.
wait_for()
{
    local what=$1 tries
    shift
    for ((tries = 0; tries < 100; tries++)); do
        "$@" 2>/dev/null && return 0
        kill -0 "$daemon" 2>/dev/null || break
        sleep 0.1
    done
    cat "$scratch"/*.log >&2
    die "$what did not appear"
}

has_figures()
{
    [ "$(key allocs)" -gt 0 ]
}

# Two columns of what cat prints.
columns()
{
    pr -t -2 -w 78 -l "$(($(wc -l <"$1") / 2 + 1))" "$1"
}

# watch_counters SECONDS: what the program does, once a second.
watch_counters()
{
    local second was now row='%10s %10s %12s %15s %15s\n'
    # shellcheck disable=SC2059 # a format that is used twice
    printf "$row" "stitched" "grown" "given back" "requested GiB" "held GiB"
    read -r -a was < <(figures)
    for ((second = 0; second < $1; second++)); do
        sleep 1
        read -r -a now < <(figures)
        [ "${#now[@]}" -eq 5 ] || die "the program ended early"
        # shellcheck disable=SC2059
        printf "$row" "+$((now[0] - was[0]))" "+$((now[1] - was[1]))" "+$((now[2] - was[2]))" \
            "$(gib "${now[3]}")" "$(gib "${now[4]}")"
        was=("${now[@]}")
    done
}

figures()
{
    awk '{ value[$1] = $2 }
         END { print value["stitch"], value["grow"], value["trim"], value["requested"], value["reserved"] }' \
        "$mount/$program/stats"
}

live()
{
    headline "live: a program at work, seen and tuned from outside"
    if [ ! -r /dev/fuse ] || [ ! -w /dev/fuse ]; then
        note "there is no /dev/fuse that may be opened here (a container without it?): the live part is left out"
        return 0
    fi
    start_daemon
    local trace=$root_dir/tests/data/unet.gz
    note "replaying $(basename "$trace") in slow motion: about one training step a second"
    "$bin/gmlake" run "${sim[@]}" -- "$bin/gmlake" replay --via driver --rate 1000 "$trace" \
        >"$scratch/program.log" 2>&1 &
    program=$!
    wait_for "the program's directory" has_figures
    sleep 2

    show ls "$mount" "$mount/$program"
    printf '\n%s$ cat %s/stats%s\n' "$bold" "$mount" "$plain"
    cat "$mount/stats" >"$scratch/stats" && columns "$scratch/stats"
    show cat "$mount/$program/pools"
    show cat "$mount/$program/tunables/stitch_min"

    printf '\n'
    note "Each second: requests served by stitching, by new memory; chunks given back; bytes in use and held."
    watch_counters 6
    show "echo max > $mount/$program/tunables/stitch_min"
    note "From the next allocation on nothing is stitched: what does not fit takes new memory from the device."
    watch_counters 9
    show "echo default > $mount/$program/tunables/stitch_min"
    show "echo 0 > $mount/$program/tunables/release_threshold"
    note "It may stitch again, and what is free goes back to the device at once."
    watch_counters 5
    show "echo 64MB > $mount/$program/tunables/stitch_min" 2>&1 | sed 's/^.*: line [0-9]*: //'
    note "Nonsense is refused, and nothing has changed."
}

# --- run ---------------------------------------------------------------------------------------------------------
scratch=$(mktemp -d)
build
choose_driver
choose_traces
compare
live
headline "done in $SECONDS s"
note "more: README.md, $bin/gmlake help, man $root_dir/build/release/man/gmlake.5"
