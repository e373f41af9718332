#!/bin/bash
# service.sh - gmlaked under a service manager that keeps its descriptors, as gmlaked.service has it, and as a user
# without rights.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

command -v python3 >/dev/null || skip "python3 is not installed"
as_user=()
if [ "$(id -u)" = 0 ]; then
    as_user=(--user nobody)
    chmod 755 "$work" # nobody writes the notices to a socket in it
fi
# A leak checker cannot look into a process without rights.
export ASAN_OPTIONS=detect_leaks=0

python3 "$(dirname "$0")/manager.py" "$work/notify" "$work/daemon.log" \
    "$bin_dir/gmlaked" --keeper service --mountpoint "$mount" --socket "$socket" "${as_user[@]}" >"$work/manager.out" 2>&1 &
daemon_pid=$!
within 10 grep -q '^READY=1' "$work/manager.out" || complain "it is never ready"
serving()
{
    sed -n 's/^started //p' "$work/manager.out" | tail -1
}

start_client one
client=$client_pid
put "$mount/tunables/cut_min" 8M
put "$mount/$client/tunables/cut_budget" 5
ask one stat reserved 31 >/dev/null
within 5 grep -q '^reserved 31$' "$mount/$client/stats" || complain "the figures do not arrive"

if [ "$(id -u)" = 0 ]; then
    expect "whose the daemon is" "65534 65534 65534 65534" "$(sed -n 's/^Uid:\t//p' "/proc/$(serving)/status" | tr '\t' ' ')"
    expect "its capabilities" "0000000000000000" "$(sed -n 's/^CapPrm:\t//p' "/proc/$(serving)/status")"
    expect "and what it may gain" "0000000000000000" "$(sed -n 's/^CapEff:\t//p' "/proc/$(serving)/status")"
    expect "no new rights" 1 "$(sed -n 's/^NoNewPrivs:\t//p' "/proc/$(serving)/status")"
    expect "the machine's files stay root's" "0 0 644" "$(stat -c '%u %g %a' "$mount/tunables/cut_min")"
fi
expect "its own the process's" "$(id -u) 500" "$(stat -c '%u %a' "$mount/$client")"
expect "nothing is for all to write" "" "$(find "$mount" -perm -002 ! -type l)"
expect "the journal's levels" "<6>" "$(head -c 3 "$work/daemon.log")"
within 3 grep -q '^WATCHDOG=1' "$work/manager.out" || complain "the watchdog hears nothing"

# --- killed, and handed over ---------------------------------------------------------------------------------------
before="$(cat "$mount/$client/serial") $(stat -c %i "$mount/$client/stats")"
exec {held}<"$mount/$client/stats"
for round in 1 2 3 4 5; do
    pid=$(serving)
    kill -KILL "$pid"
    expect_ok "a read right after" cat "$mount/$client/stats"
    [ "$(serving)" != "$pid" ]
    expect "another one serves" 0 $?
    expect_ok "the open file" cat <&"$held"
    expect "the same process" "$before" "$(cat "$mount/$client/serial") $(stat -c %i "$mount/$client/stats")"
    expect "its figures" "reserved 31" "$(grep '^reserved ' "$mount/$client/stats")"
    put "$mount/$client/tunables/cut_budget" "$round"
    in_force()
    {
        grep -q "^cut_budget want=$round now=$round " "$mount/$client/tunables/.applied"
    }
    within 5 in_force || complain "round $round: the process is not back"
done
expect "the machine's value" 8388608 "$(cat "$mount/tunables/cut_min")"
expect "mounts are not piled up" 1 "$(grep -c " $mount " /proc/self/mountinfo)"
# Four of the daemon and two of the process, and no more with every hand-over.
expect "what the manager keeps" "kept 6" "$(grep '^kept' "$work/manager.out" | tail -1)"

# --- a process that is gone is let go of, one that execs is another ----------------------------------------------------
ask one exec >/dev/null
registered_anew()
{
    [ "$(cat "$mount/$client/serial")" -gt "${before%% *}" ]
}
within 5 registered_anew || complain "a program after exec() is not registered anew"
# The program changes while no daemon looks: it may not pass for the one that was.
serial=$(cat "$mount/$client/serial")
put "$mount/$client/tunables/cut_budget" 99
kill -STOP "$(serving)"
ask one exec >/dev/null
sleep 0.2
kill -KILL "$(serving)"
another()
{
    [ "$(cat "$mount/$client/serial")" -gt "$serial" ] && [ "$(cat "$mount/$client/tunables/cut_budget")" = 1000 ]
}
within 5 another || complain "a program that took another's place during a restart passes for it"
kill -KILL "$client"
within 5 test ! -e "$mount/$client" || complain "the process stays"
kill -KILL "$(serving)"
expect "nobody is left" "processes 0" "$(head -1 "$mount/stats")"
expect "what is kept then" "kept 4" "$(grep '^kept' "$work/manager.out" | tail -1)"

# --- the unit is stopped: ExecStop unmounts as root, then comes SIGTERM; a file that is open does not hold it up ----------
if [ "$(id -u)" = 0 ]; then
    umount --lazy "$mount"
fi
kill -TERM "$daemon_pid"
wait "$daemon_pid"
expect "exit code" 0 $?
daemon_pid=
expect "mounted after the end" no "$(is_mounted && echo yes || echo no)"
finish
