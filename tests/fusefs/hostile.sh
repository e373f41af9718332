#!/bin/bash
# hostile.sh - processes that write garbage into their page, never rest, or flood the socket harm nobody else; a crowd of
# stopped processes and of readers stops nobody.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

hostile=$GMLAKE_TEST_BUILD_DIR/tests/fusefs_hostile
seconds=4
start_daemon
start_client honest
honest=$client_pid
ask honest stat reserved 777777 >/dev/null
within 5 grep -q '^reserved 777777$' "$mount/$honest/stats" || complain "the honest figures do not arrive"

daemon_threads()
{
    find "/proc/$daemon_pid/task" -mindepth 1 -maxdepth 1 | wc -l
}
threads=$(daemon_threads)

# harmless WHAT: the honest process is shown as before, by every file of the machine too.
harmless()
{
    expect "$1: the honest process's figure" "reserved 777777" "$(grep '^reserved ' "$mount/$honest/stats")"
    expect "$1: not stale" "stale 0" "$(grep '^stale ' "$mount/$honest/stats")"
    expect "$1: in the metrics" 777777 "$(sed -n "s/^gmlake_process_reserved_bytes{pid=\"$honest\".*} //p" "$mount/metrics")"
    expect_ok "$1: the machine's sums" cat "$mount/stats"
}

# shake PID: reads everything of a hostile process; the files may say what they like, but as text.
shake()
{
    local file
    for file in stats pools state comm tunables/.applied tunables/stitch_min; do
        if ! cat "$mount/$1/$file" >"$work/text" 2>/dev/null; then
            [ ! -e "$mount/$1" ] || complain "$file of a hostile process cannot be read"
        elif grep -qP '[^\x0a\x20-\x7e]' "$work/text"; then
            complain "$file of a hostile process has strange bytes"
        fi
    done
}

for what in scribble spin; do
    GMLAKE_SOCKET=$socket "$hostile" $what $seconds &
    pid=$!
    client_pids+=("$pid")
    within 5 test -e "$mount/$pid" || complain "the hostile process does not appear"
    end=$((SECONDS + seconds - 1))
    while [ $SECONDS -lt $end ]; do
        shake "$pid"
        harmless "$what"
    done
    wait "$pid"
    expect "$what" 0 $?
done

# The flood takes the places of its user: an attached process keeps its own, and a new one finds one afterwards.
GMLAKE_SOCKET=$socket "$hostile" flood $seconds &
pid=$!
client_pids+=("$pid")
end=$((SECONDS + seconds - 1))
while [ $SECONDS -lt $end ]; do
    harmless flood
done
wait "$pid"
start_client later
expect "a newcomer after the flood" fusefs_client "$(cat "$mount/$client_pid/comm")"

# A crowd: nobody waits for stopped processes, however many read.
for i in $(seq 20); do
    start_client "crowd$i"
    kill -STOP "$client_pid"
done
expect "a stopped one can be tuned" 0 "$(put "$mount/$client_pid/tunables/cut_budget" 5 && echo 0)"
readers=()
for i in $(seq 16); do
    (
        for _ in $(seq 20); do
            cat "$mount/stats" "$mount/metrics" "$mount"/[0-9]*/stats >/dev/null || exit 1
        done
    ) &
    readers+=($!)
done
for pid in "${readers[@]}"; do
    wait "$pid"
    expect "a reader in the crowd" 0 $?
done
expect "processes" "processes 22" "$(head -1 "$mount/stats")"
expect "the daemon has as many threads as before" "$threads" "$(daemon_threads)"
descriptors=$(find "/proc/$daemon_pid/fd" -mindepth 1 | wc -l)
for pid in "${client_pids[@]}"; do
    kill -KILL "$pid" 2>/dev/null
done
within 5 grep -q '^processes 0$' "$mount/stats" || complain "the crowd stays"
[ "$(find "/proc/$daemon_pid/fd" -mindepth 1 | wc -l)" -le $((descriptors - 2 * 22)) ]
expect "their descriptors are closed" 0 $?
stop_daemon
finish
