#!/bin/bash
# tracing.sh - a trace of a running process is what it did, and can be replayed; the commands that go with it.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

export SIMCUDA_MEMORY=4G
gmlake=$bin_dir/gmlake
source_dir=${GMLAKE_TEST_SOURCE_DIR:?run this through ctest}
start_daemon
client_program=$GMLAKE_TEST_BUILD_DIR/tests/fusefs_program
start_client one
here=$mount/$client_pid

# trace_starts PID: within ten seconds.
trace_starts()
{
    within 10 grep -q '^on ' "$mount/$1/trace" || complain "the trace does not start"
}

# --- what a process does is what the trace says -------------------------------------------------------------------------
older=$(ask one alloc 5000)
"$gmlake" trace --mount "$mount" -p "$client_pid" -o "$work/one.txt" 2>"$work/one.log" &
tracer=$!
trace_starts "$client_pid"
a=$(ask one alloc 700)
b=$(ask one alloc 3000000 1)
ask one free "$older" >/dev/null
ask one free "$a" >/dev/null
c=$(ask one alloc 1234567 2)
ask one sync "$b" >/dev/null
ask one free "$c" >/dev/null
ask one alloc 99 >/dev/null
expect "what somebody records is not recorded twice" 1 \
    "$("$gmlake" trace --mount "$mount" -p "$client_pid" -o "$work/two.txt" --seconds 1 2>&1 | grep -c 'on already')"
say one quit
wait "$tracer"
expect "the end of the process ends the trace" 0 $?
expect "the trace" "a 0 700 0|a 1 3000000 1|f 0 0|a 2 1234567 2|f 1 1|f 2 2|a 3 99 0|" \
    "$(sed 's/ [0-9]*$//' "$work/one.txt" | tr '\n' '|')"
expect "what is said of it" "$work/one.txt: 4 allocations, 3 frees; 1 frees of older blocks left out" "$(cat "$work/one.log")"
expect_ok "it can be replayed" "$gmlake" replay --sim --json "$work/one.txt"
expect "as many operations" 7 "$("$gmlake" replay --sim --json "$work/one.txt" | sed 's/.*"ops": *\([0-9]*\).*/\1/')"

# --- a program at work: none lost ------------------------------------------------------------------------------------------
ASAN_OPTIONS=detect_leaks=0 GMLAKE_SOCKET=$socket "$gmlake" run --sim -- "$gmlake" replay --via driver --rate 4000 \
    "$source_dir/tests/data/unet.gz" >/dev/null 2>&1 &
program=$!
client_pids+=("$program")
within 10 test -e "$mount/$program/trace" || complain "the program does not appear"
expect_ok "a second of a program at work" "$gmlake" trace --mount "$mount" -p "$program" -o "$work/unet.gz" --seconds 1
expect_error "onto a full disk" "No space left" "$gmlake" trace --mount "$mount" -p "$program" -o /dev/full --seconds 0.5
expect "the trace is off" off "$(cut -d' ' -f1 "$mount/$program/trace")"
expect "nothing is lost" lost=0 "$(cut -d' ' -f4 "$mount/$program/trace")"
expect_ok "it can be replayed" "$gmlake" replay --sim --json "$work/unet.gz"
expect "it is long" 1 "$(($(zcat "$work/unet.gz" | grep -c '^a ') > 100))"
kill "$program"

# --- a ring that is too small, and is read late ----------------------------------------------------------------------------
start_client two
here=$mount/$client_pid
expect "off at first" off "$(cat "$here/trace")"
while read -r text; do
    expect_error "echo '$text'" "Invalid argument" put "$here/trace" "$text"
done <<'END'
yes
on ring
on ring=
on ring= 64K
on ring=x
onring=64K
1

END
expect_error "too small a ring" "Numerical result out of range" put "$here/trace" "on ring=1K"
expect_error "too large a ring" "Numerical result out of range" put "$here/trace" "on ring=1T"
expect_ok "on" put "$here/trace" "on ring=64K"
expect "it says so" "on ring=65536 recorded=0 lost=0" "$(cat "$here/trace")"
say two churn 1
hear two >/dev/null
within 2 grep -qE '^on ring=65536 recorded=[0-9]{3,} lost=[0-9]{2,}$' "$here/trace" || complain "the trace says $(cat "$here/trace")"
expect_ok "off" put "$here/trace" " off "
recorded=$(sed 's/.*recorded=\([0-9]*\) .*/\1/' "$here/trace")
lost=$(sed 's/.*lost=\([0-9]*\).*/\1/' "$here/trace")
cat "$here/trace_pipe" >"$work/events"
# One event more: that says how many are missing.
expect "what is not lost is there" $((40 * (recorded - lost + 1))) "$(stat -c %s "$work/events")"
expect "and is taken once" 0 "$(wc -c <"$here/trace_pipe")"
expect_error "in pieces of an event at least" "Invalid argument" dd if="$here/trace_pipe" bs=39 count=1 status=none
expect_error "nobody writes there" "Permission denied" put "$here/trace_pipe" x
# Rings are the daemon's memory: a user may not have any number of them.
for _ in $(seq 3); do
    expect_ok "on again, in place of the last" put "$here/trace" "on ring=256M"
done
if [ "$(id -u)" = 0 ]; then
    expect_error "somebody else's" "Permission denied" setpriv --reuid 12345 --clear-groups cat "$here/trace_pipe"
fi

# --- the commands ----------------------------------------------------------------------------------------------------------
expect_ok "set max" "$gmlake" set --mount "$mount" -p "$client_pid" max 1G
expect "get max" 1073741824 "$("$gmlake" get --mount "$mount" -p "$client_pid" max)"
expect "in the file" 1073741824 "$(cat "$here/max")"
expect_ok "set high" "$gmlake" set --mount "$mount" -p "$client_pid" high 2G
expect "in the file" 2147483648 "$(cat "$here/high")"
expect_ok "reclaim" "$gmlake" reclaim --mount "$mount" -p "$client_pid" max
expect_error "reclaim more than there is" "given back less" "$gmlake" reclaim --mount "$mount" -p "$client_pid" 1T
expect_error "no amount" "is no amount" "$gmlake" reclaim --mount "$mount" -p "$client_pid" some
expect_error "no such process" "no process 999999999" "$gmlake" reclaim --mount "$mount" -p 999999999 1
"$gmlake" trace --mount "$mount" -p 999999999 -o "$work/x" >/dev/null 2>&1
expect "exit code for no such process" 3 $?
"$gmlake" trace --mount "$work" -p 1 -o "$work/x" >/dev/null 2>&1
expect "exit code for no daemon" 4 $?
expect_error "no file" "wants -p PID and -o FILE" "$gmlake" trace --mount "$mount" -p "$client_pid"

# --- the daemon goes: the process goes on, without a trace -------------------------------------------------------------------
expect_ok "on" put "$here/trace" on
stop_daemon
expect "it goes on" 1 "$(($(ask two alloc 1000) >= 0))"
start_daemon
within 10 test -e "$here/trace" || complain "the process does not come back"
expect "the trace went with the daemon" off "$(cat "$here/trace")"
expect_ok "and can be had again" put "$here/trace" on
ask two alloc 1000 >/dev/null
expect "it records" recorded=1 "$(cut -d' ' -f3 "$here/trace")"
stop_daemon
finish
