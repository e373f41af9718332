#!/bin/bash
# cost.sh - what the control plane costs on the hot path: instructions of the allocating thread for one pair of
# allocation and free, by callgrind: built without it, with it and alone, and attached to gmlaked.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

command -v valgrind >/dev/null || skip "valgrind is not installed"
program=$GMLAKE_TEST_BUILD_DIR/tests/fusefs_tuning
export SIMCUDA_BACKING=0 GMLAKE_SOCKET=$socket

# instructions LIBRARIES SIZE TURNS: of the first thread of a program that goes round so often, in $counted.
instructions()
{
    rm -f "$work"/counts*
    LD_LIBRARY_PATH=$1:$bin_dir/../lib/simcuda timeout 100 valgrind -q --tool=callgrind --separate-threads=yes \
        --callgrind-out-file="$work/counts" "$program" loop "$3" "$2" >/dev/null 2>"$work/valgrind" ||
        complain "callgrind: $(cat "$work/valgrind")"
    counted=$(awk '/^totals:/ { print $2 }' "$work/counts-01")
}

# per_pair LIBRARIES SIZE: the loop alone, without what comes before it: in hundredths of an instruction, in $pair.
per_pair()
{
    instructions "$1" "$2" 20000
    local short=$counted
    instructions "$1" "$2" 120000
    pair=$(((counted - short) / 1000))
}

# compare SIZE PERMILLE: what it may cost at most.
compare()
{
    local size=$1 without alone
    unset MOUNT
    per_pair "$GMLAKE_TEST_BUILD_DIR/tests/without" "$size"
    without=$pair
    per_pair "$bin_dir/../lib" "$size"
    alone=$pair
    export MOUNT=$mount
    per_pair "$bin_dir/../lib" "$size"
    awk -v size="$size" -v w="$without" -v a="$alone" -v b="$pair" 'BEGIN {
        printf "instructions for a pair of calls of %s bytes: %.2f without control plane, %.2f with it and alone (%+.2f %%), %.2f attached to gmlaked (%+.2f %%)\n",
            size, w / 100, a / 100, (a - w) * 100 / w, b / 100, (b - w) * 100 / w
    }'
    expect "$size bytes: $2 in a thousand at most" 1 "$((pair * 1000 <= without * (1000 + $2)))"
}

start_daemon
compare 67108864 10
compare 5000 10
stop_daemon
finish
