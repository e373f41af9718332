#!/bin/bash
# cost.sh - what the control plane costs on the hot path: instructions of the allocating thread for one pair of
# allocation and free, by callgrind, attached to gmlaked and not.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

command -v valgrind >/dev/null || skip "valgrind is not installed"
program=$GMLAKE_TEST_BUILD_DIR/tests/fusefs_tuning
export SIMCUDA_BACKING=0 GMLAKE_SOCKET=$socket LD_LIBRARY_PATH=$bin_dir/../lib:$bin_dir/../lib/simcuda

# instructions TURNS: of the first thread of a program that goes round so often, in $counted.
instructions()
{
    rm -f "$work"/counts*
    timeout 100 valgrind -q --tool=callgrind --separate-threads=yes --callgrind-out-file="$work/counts" \
        "$program" loop "$1" >/dev/null 2>"$work/valgrind" || complain "callgrind: $(cat "$work/valgrind")"
    counted=$(awk '/^totals:/ { print $2 }' "$work/counts-01")
}

# per_pair: the loop alone, without what comes before it: in hundredths of an instruction, in $pair.
per_pair()
{
    instructions 20000
    local short=$counted
    instructions 120000
    pair=$(((counted - short) / 1000))
}

per_pair
alone=$pair
start_daemon
export MOUNT=$mount
per_pair
attached=$pair
awk -v a="$alone" -v b="$attached" 'BEGIN {
    printf "instructions for a pair of calls: %.2f alone, %.2f attached to gmlaked (%+.2f %%)\n", a / 100, b / 100, (b - a) * 100 / a
}'
expect "costs one in a hundred at most" 1 "$((attached * 100 <= alone * 101))"
stop_daemon
finish
