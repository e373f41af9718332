#!/bin/bash
# slice.sh - one run through everything: a program under `gmlake run` on the simulated driver, seen in the mount while it
# works, tuned by echo, gone from the mount when it ends; then the daemon ends and leaves nothing.
set -u -o pipefail

bin=${GMLAKE_TEST_BIN_DIR:?run this through ctest}
source_dir=${GMLAKE_TEST_SOURCE_DIR:?run this through ctest}
if [ ! -r /dev/fuse ] || [ ! -w /dev/fuse ]; then
    echo "skipped: no /dev/fuse that may be opened"
    exit 77
fi

scratch=$(mktemp -d)
mount=$scratch/mount
export GMLAKE_SOCKET=$scratch/socket
daemon=''
program=''
failed=0

clean_up()
{
    [ -z "$program" ] || kill "$program" 2>/dev/null
    [ -z "$daemon" ] || kill "$daemon" 2>/dev/null
    wait
    ! mountpoint -q "$mount" || umount -l "$mount"
    rm -rf "$scratch"
}
trap clean_up EXIT

complain()
{
    printf '%s\n' "$*"
    failed=1
}

give_up()
{
    complain "$*"
    cat "$scratch"/*.log
    exit 1
}

# wait_for COMMAND...: until it succeeds, at most ten seconds.
wait_for()
{
    local tries
    for ((tries = 0; tries < 200; tries++)); do
        "$@" 2>/dev/null && return 0
        sleep 0.05
    done
    return 1
}

key()
{
    awk -v name="$1" '$1 == name { print $2 }' "$mount/$program/stats"
}

# at_least KEY VALUE: the program's figure has come so far.
at_least()
{
    [ "$(key "$1")" -ge "$2" ]
}

in_force()
{
    grep -q "^$1 .*now=$2 " "$mount/$program/tunables/.applied"
}

# --- the daemon --------------------------------------------------------------------------------------------------
"$bin/gmlaked" --mountpoint "$mount" --socket "$GMLAKE_SOCKET" 2>"$scratch/daemon.log" &
daemon=$!
wait_for mountpoint -q "$mount" || give_up "the daemon did not mount"
[ "$(awk '$1 == "processes" { print $2 }' "$mount/stats")" = 0 ] || complain "stats count processes before there is one"

# --- a program at work -------------------------------------------------------------------------------------------
# The allocator lives as long as the program, in memory that a leak checker does not look through.
ASAN_OPTIONS=detect_leaks=0 "$bin/gmlake" run --sim --set split_min=1024 -- "$bin/gmlake" replay --via driver --rate 4000 --json \
    "$source_dir/tests/data/unet.gz" >"$scratch/program.json" 2>"$scratch/program.log" &
program=$!
wait_for at_least allocs 1000 || give_up "the program's figures did not appear"
[ "$(cat "$mount/$program/comm")" = gmlake ] || complain "comm is $(cat "$mount/$program/comm")"
[ "$(cat "$mount/$program/tunables/split_min")" = 1024 ] || complain "a value from the environment is not shown"
[ "$(awk '$1 == "processes" { print $2 }' "$mount/stats")" = 1 ] || complain "stats does not count the program"
grep -q '^0:primitive size=[1-9]' "$mount/$program/pools" || complain "pools has no primitive pool"
grep -q '^0:stitched ' "$mount/$program/pools" || complain "pools has no stitched pool"
[ "$(key reserved)" -ge "$(key requested)" ] || complain "less is reserved than was asked for"

# --- tuned while it works ----------------------------------------------------------------------------------------
echo 0 >"$mount/$program/tunables/enabled" || complain "enabled cannot be written"
wait_for in_force enabled 0 || complain "the value written did not come into force"
frozen=$(key allocs)
sleep 0.5
thawed=$(key allocs)
sleep 0.5
[ "$(key allocs)" -eq "$thawed" ] || complain "allocations are still served although enabled is 0 ($frozen, $thawed, $(key allocs))"
echo default >"$mount/$program/tunables/enabled"
wait_for at_least allocs $((thawed + 1000)) || complain "allocations are not served again after enabled was reset"

for value in 64MB -1 '' 1.5G 2T0; do
    if echo "$value" 2>/dev/null >"$mount/$program/tunables/stitch_min"; then
        complain "'$value' was taken as a value of stitch_min"
    fi
done
[ "$(cat "$mount/$program/tunables/stitch_min")" = 0 ] || complain "a refused value changed stitch_min"

# --- the end -----------------------------------------------------------------------------------------------------
wait "$program" || complain "the program failed: $(cat "$scratch/program.log")"
grep -q '"oom": *0[,}]' "$scratch/program.json" || complain "the program ran out of memory: $(cat "$scratch/program.json")"
gone()
{
    [ ! -e "$mount/$program" ]
}
wait_for gone || complain "the program has ended and is still in the mount"
program=''

kill "$daemon"
wait "$daemon" || complain "the daemon's exit code is not 0"
daemon=''
! mountpoint -q "$mount" || complain "the mount is left"
[ ! -e "$GMLAKE_SOCKET" ] || complain "the socket is left"
[ ! -e "$mount" ] || complain "the mountpoint that the daemon made is left"
exit "$failed"
