#!/bin/bash
# events.sh - counters of what happened, on the machine and in a process; who waits for a change of them is woken, by the
# daemon he asked or by the next one.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

M=1048576
gmlake=$bin_dir/gmlake
export SIMCUDA_MEMORY=1G
start_daemon
client_program=$GMLAKE_TEST_BUILD_DIR/tests/fusefs_program
start_client one
one=$client_pid
here=$mount/$one

# event FILE KEY: a counter.
event()
{
    awk -v key="$2" '$1 == key { print $2 }' "$1/events"
}

# has DIRECTORY KEY COUNT: within five seconds it is that high.
has()
{
    checks=$((checks + 1))
    within 5 event_is "$@" || complain "$2 in $1 is $(event "$1" "$2"), not $3"
}

# shellcheck disable=SC2317 # called by within, as is the next
event_is()
{
    test "$(event "$1" "$2")" = "$3"
}

# shellcheck disable=SC2317
at_least()
{
    test "$(event "$1" "$2")" -ge "$3"
}

# --- what raises each -------------------------------------------------------------------------------------------------
expect "the machine's" "register exit oom limit reclaim stale" "$(cut -d' ' -f1 "$mount/events" | xargs)"
expect "a process's" "low high max oom stitch_fail reclaim" "$(cut -d' ' -f1 "$here/events" | xargs)"
expect "nothing has happened" "0 0 0 0 0 0" "$(cut -d' ' -f2 "$here/events" | xargs)"
expect "one came" "1 0 0 0 0 0" "$(cut -d' ' -f2 "$mount/events" | xargs)"
ask one alloc $((300 * M)) >/dev/null
b=$(ask one alloc $((200 * M)))
expect_ok "high" put "$here/high" 600M
c=$(ask one alloc $((200 * M)))
has "$here" high 1
ask one free "$c" >/dev/null # gone at once, beyond high
has "$here" reclaim 1
expect_ok "no high" put "$here/high" max
expect_ok "max" put "$here/max" 600M
expect "beyond max" ENOMEM "$(ask one alloc $((200 * M)))"
within 5 at_least "$here" max 1 || complain "max is $(event "$here" max)"
has "$here" oom 1
expect "the device had enough" 0 "$(event "$here" low)"
expect_ok "no max" put "$here/max" max
expect "beyond the device" ENOMEM "$(ask one alloc $((900 * M)))"
within 5 at_least "$here" low 1 || complain "low is $(event "$here" low)"
has "$here" oom 2
ask one free "$b" >/dev/null
expect_ok "reclaim" put "$here/reclaim" 10M
has "$here" reclaim 2
expect "the machine's oom" 2 "$(event "$mount" oom)"
expect "the machine's limit" "$(($(event "$here" high) + $(event "$here" max)))" "$(event "$mount" limit)"
expect "the machine's reclaim" 2 "$(event "$mount" reclaim)"

# From some call on the driver maps nothing, for a while: what fails then are second mappings of chunks that were freed.
SIMCUDA_FAIL=$(for n in $(seq 9 40); do printf 'cuMemMap:%d:2,' "$n"; done | sed 's/,$//') start_client two
for _ in 1 2 3 4 5 6 7 8; do
    ask two alloc $((16 * M)) >/dev/null
done
for i in 0 2 4 6; do
    ask two free "$i" >/dev/null
done
ask two alloc $((60 * M)) >/dev/null
within 5 at_least "$mount/$client_pid" stitch_fail 1 || complain "stitch_fail is not counted: $(cat "$mount/$client_pid/events")"
ask two alloc 4000000000 >/dev/null
within 5 at_least "$mount/$client_pid" oom 1 || complain "oom is not counted: $(cat "$mount/$client_pid/events")"
sleep 0.5 # the 60 MiB may have been refused, too
of_two=$(event "$mount/$client_pid" oom)
expect "two came" 2 "$(event "$mount" register)"
kill -KILL "$client_pid"
has "$mount" exit 1
expect "those of who has gone are kept" $((2 + of_two)) "$(event "$mount" oom)"
kill -STOP "$one"
has "$mount" stale 1
kill -CONT "$one"
within 5 grep -q '^stale 0' "$here/stats" || complain "it stays stale"
expect "once each time" 1 "$(event "$mount" stale)"

# --- the command --------------------------------------------------------------------------------------------------------
expect "events" "$(cat "$here/events")" "$("$gmlake" events --mount "$mount" -p "$one")"
expect "events of the machine" "$(cat "$mount/events")" "$("$gmlake" events --mount "$mount")"
expect_error "no such event" "no event 'nothing'" "$gmlake" events --mount "$mount" --wait nothing
"$gmlake" events --mount "$mount" --wait oom --timeout 0.2 2>/dev/null
expect "in vain" 1 $?
"$gmlake" events --mount "$mount" --timeout 1 2>/dev/null
expect "usage" 2 $?
"$gmlake" events --mount "$work" 2>/dev/null
expect "no daemon" 4 $?
"$gmlake" events --mount "$mount" -p "$one" --wait oom --timeout 20 >"$work/waited" &
waiter=$!
"$gmlake" events --mount "$mount" -f >"$work/followed" 2>/dev/null &
follower=$!
within 5 test -s "$work/followed" || complain "nothing to follow"
sleep 0.3
ask one alloc $((2000 * M)) >/dev/null
wait "$waiter"
expect "waited for" "0 oom 3" "$? $(cat "$work/waited")"
within 5 grep -qx "oom $((3 + of_two))" "$work/followed" || complain "followed: $(cat "$work/followed")"
expect "only what has changed" 1 "$(grep -c '^register' "$work/followed")"
kill "$follower"
wait "$follower" 2>/dev/null

# --- poll and epoll -----------------------------------------------------------------------------------------------------
if command -v python3 >/dev/null; then
    expect "poll(2)" "" "$(timeout 60 python3 "$(dirname "$0")/events.py" "$mount" "$one" "$work/one.in" "$work/one.out" "$(serving_pid)" 2>&1)"
else
    echo "note: python3 is not installed; poll(2) is tried by gmlake events alone"
fi

# --- an idle mount does nothing -------------------------------------------------------------------------------------------
ticks()
{
    awk '{ print $14 + $15 }' "/proc/$(serving_pid)/stat"
}
switches()
{
    cat "/proc/$(serving_pid)/task/"*/status | awk '/^voluntary_ctxt_switches/ { sum += $2 } END { print sum }'
}
threads()
{
    awk '/^Threads/ { print $2 }' "/proc/$(serving_pid)/status"
}
before=$(switches)
threads=$(threads)
sleep 2
after=$(switches)
[ $((after - before)) -le 16 ] || [ -n "${GMLAKE_TEST_SANITIZE:-}" ] # which has threads of its own
expect "wakes up now and then ($((after - before)) times in 2 s)" 0 $?
"$gmlake" events --mount "$mount" -f >"$work/followed" 2>/dev/null &
follower=$!
sleep 0.5
before=$(ticks)
sleep 2
after=$(ticks)
[ $((after - before)) -le 5 ]
expect "waiting costs next to nothing ($((after - before)) ticks in 2 s)" 0 $?
expect "threads" "$threads" "$(threads)"
kill -KILL "$one" # also an event
within 5 grep -q '^exit 2' "$work/followed" || complain "the end is not followed: $(cat "$work/followed")"
stop_daemon
wait "$follower"
expect "who follows ends with the daemon" 4 $?
finish
