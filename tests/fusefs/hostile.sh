#!/bin/bash
# hostile.sh - processes that write garbage into their page, never rest, lie, flood the socket, say and send what nobody asked
# for, or die at any moment, all at once and as another user: they harm nobody else. GMLAKE_TEST_SECONDS says for how
# long (30).
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

seconds=${GMLAKE_TEST_SECONDS:-30}
[ -z "${GMLAKE_TEST_SANITIZE:-}" ] || seconds=${GMLAKE_TEST_SECONDS:-20}
hostile=$work/hostile
cp "$GMLAKE_TEST_BUILD_DIR/tests/fusefs_hostile" "$hostile" # the build may be where other users cannot go
chmod 755 "$work"
other_user=()
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
    other_user=(setpriv --reuid 4321 --regid 4321 --clear-groups)
fi
start_daemon
start_client honest
honest=$client_pid
ask honest stat reserved 777777 >/dev/null
within 5 grep -q '^reserved 777777$' "$mount/$honest/stats" || complain "the honest figures do not arrive"

serving=$(serving_pid)
count_in()
{
    find "/proc/$serving/$1" -mindepth 1 -maxdepth 1 | wc -l
}
threads=$(count_in task)
descriptors=$(count_in fd)

# harmless: the honest process is shown as before, by every file of the machine too, and soon.
harmless()
{
    local start
    start=$(date +%s%N)
    expect "the honest process's figure" "reserved 777777" "$(grep '^reserved ' "$mount/$honest/stats")"
    expect "not stale" "stale 0" "$(grep '^stale ' "$mount/$honest/stats")"
    expect "in the metrics" 777777 "$(sed -n "s/^gmlake_process_reserved_bytes{pid=\"$honest\".*} //p" "$mount/metrics")"
    expect_ok "the machine's sums" cat "$mount/stats"
    expect_ok "set" put "$mount/$honest/tunables/cut_budget" 1234
    expect "in force" 1234 "$(ask honest tunable cut_budget)"
    [ $((($(date +%s%N) - start) / 1000000)) -lt 3000 ]
    expect "all that in less than 3 s" 0 $?
}

# shake PID: reads everything of a hostile process; the files may say what they like, but as text, and in time. Some need
# an answer of the process, which has better things to do, or gives any error.
shake()
{
    local file code may='No such|Resource temporarily unavailable'
    [ "${kind[$1]}" != lie ] || may+='|Input/output error|Cannot allocate memory|Operation not supported'
    find "$mount/$1" -type f -perm -0400 ! -name trace_pipe 2>/dev/null >"$work/files" # that one is no text
    while read -r file; do
        timeout 10 cat "$file" >"$work/text" 2>"$work/said"
        code=$?
        if [ "$code" -ne 0 ]; then
            grep -qE "$may" "$work/said" || complain "$file of a hostile process: exit code $code, $(cat "$work/said")"
        elif grep -qP '[^\x0a\x20-\x7e]' "$work/text"; then
            complain "$file of a hostile process has strange bytes"
        fi
    done <"$work/files"
}

# pester PID: asks it for all that only it can do. Whatever it answers, who asked hears something in time.
pester()
{
    local command
    while read -r command; do
        (cd "$mount/$1" 2>/dev/null && exec timeout 10 bash -c "$command") >"$work/text" 2>/dev/null
        [ $? -ne 124 ] || complain "'$command' of a process that lies does not come back"
    done <<'END'
cat map
echo 1M >reclaim
echo on ring=1M >trace
cat trace trace_pipe
echo >peak
cat peak current
echo off >trace
head -c 100000 trace_pipe
echo max >reclaim
END
}

declare -A kind
# let_loose WHAT...
let_loose()
{
    local what
    for what in "$@"; do
        HOSTILE_FILE=$mount/version GMLAKE_SOCKET=$socket "${other_user[@]}" "$hostile" "$what" "$seconds" 2>"$work/$what.err" &
        kind[$!]=$what
        client_pids+=($!)
    done
}
# Those first who do their harm in one connection: the others use up what their user may ask.
let_loose scribble counts spin grab lie
for pid in "${!kind[@]}"; do
    within 5 test -e "$mount/$pid/stats" || complain "${kind[$pid]} is not let in"
done
let_loose flood talk gifts churn
end=$((SECONDS + seconds - 1))
while [ $SECONDS -lt $end ]; do
    harmless
    for pid in "${!kind[@]}"; do
        shake "$pid"
        [ "${kind[$pid]}" != lie ] || pester "$pid"
    done
    [ "$failed" -lt 20 ] || break
done
for pid in "${!kind[@]}"; do
    expect_end "${kind[$pid]}" "$pid" "$work/${kind[$pid]}.err"
done
within 10 grep -q '^processes 1$' "$mount/stats" || complain "somebody stays: $(ls "$mount")"
expect "the same daemon serves" "$serving" "$(serving_pid)"
expect "threads" "$threads" "$(count_in task)"
few_descriptors()
{
    [ "$(count_in fd)" -le "$descriptors" ]
}
within 5 few_descriptors || complain "descriptors stay: $descriptors before, $(count_in fd) now"
start_client later
expect "a newcomer afterwards" fusefs_client "$(cat "$mount/$client_pid/comm")"
echo "$checks checks in $seconds s"
stop_daemon
finish
