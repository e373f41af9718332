#!/bin/bash
# life.sh - processes and daemons that come, stop, fork, die and come back.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

# --- a process dies -----------------------------------------------------------------------------------------------
start_daemon
best=1000
for round in 1 2 3 4 5; do
    start_client "dies$round"
    start=$(date +%s%N)
    kill -KILL "$client_pid"
    within 5 test ! -e "$mount/$client_pid" || complain "the directory of a dead process stays"
    took=$((($(date +%s%N) - start) / 1000000))
    best=$((took < best ? took : best))
done
[ "$best" -le 100 ]
expect "the directory vanishes within 100 ms (took $best)" 0 $?
expect "nobody is left" "processes 0" "$(head -1 "$mount/stats")"

# --- stopped, forked, renamed -------------------------------------------------------------------------------------
start_client one
kill -STOP "$client_pid"
expect "state of a stopped process" stopped "$(within 2 grep -q stopped "$mount/$client_pid/state"; cat "$mount/$client_pid/state")"
expect_ok "a stopped process can be read" cat "$mount/$client_pid/stats"
expect_ok "and tuned" put "$mount/$client_pid/tunables/cut_budget" 9
within 5 grep -q '^stale 1' "$mount/$client_pid/stats" || complain "it never becomes stale"
kill -CONT "$client_pid"
expect "what was set meanwhile is in force" 9 "$(ask one tunable cut_budget)"
within 3 grep -q '^stale 0' "$mount/$client_pid/stats" || complain "a process that goes on stays stale"
if [ "${GMLAKE_TEST_SANITIZE:-}" != thread ]; then # which does not allow a forked child to start a thread
    child=$(ask one fork)
    within 5 test -e "$mount/$child/stats" || complain "a forked child does not appear"
    expect "both are there" "processes 2" "$(head -1 "$mount/stats")"
    expect "the child has nothing of its parent's" 1000 "$(cat "$mount/$child/tunables/cut_budget")"
fi
ask one stop >/dev/null
within 5 test ! -e "$mount/$client_pid" || complain "a process that detached stays"
if [ -n "${child:-}" ]; then
    expect "the child is still there" fusefs_client "$(cat "$mount/$child/comm")"
fi
ask one start >/dev/null
within 5 test -e "$mount/$client_pid/stats" || complain "a process that starts again does not appear"
# --- exec, and a pid namespace ---------------------------------------------------------------------------------------
registered_anew()
{
    [ "$(cat "$mount/$client_pid/serial")" -gt "$serial" ]
}
serial=$(cat "$mount/$client_pid/serial")
ask one closefds >/dev/null
within 8 registered_anew || complain "a process that closed everything is not registered anew"
serial=$(cat "$mount/$client_pid/serial")
ask one exec >/dev/null
within 5 registered_anew || complain "a program after exec() is not registered anew"
expect "what it works with" ok "$(ask one stat reserved 31)"
within 5 grep -q '^reserved 31$' "$mount/$client_pid/stats" || complain "the figures after exec() do not arrive"
if [ "$(id -u)" = 0 ] && unshare --pid --fork true 2>/dev/null; then
    mkfifo "$work/inner.in"
    GMLAKE_SOCKET=$socket unshare --pid --fork "$client_program" <"$work/inner.in" >/dev/null &
    client_pids+=($!)
    exec {inner}>"$work/inner.in"
    both_there()
    {
        [ "$(head -1 "$mount/stats")" = "processes 2" ]
    }
    within 5 both_there || complain "a process in a pid namespace does not appear"
    inside=$(find "$mount" -mindepth 1 -maxdepth 1 -name '[0-9]*' -printf '%f\n' | grep -vx "$client_pid")
    expect "its directory has the pid that this side knows" fusefs_client "$(cat "/proc/$inside/comm")"
    echo quit >&"$inner"
    exec {inner}>&-
    within 5 test ! -e "$mount/$inside" || complain "it stays"
else
    echo "note: no pid namespaces here; a process in one is left out"
fi

# --- the daemon restarts --------------------------------------------------------------------------------------------
put "$mount/$client_pid/tunables/cut_budget" 123
put "$mount/tunables/cut_min" 8M
stop_daemon
expect "directories that the daemon made are gone" "no no" \
    "$([ -e "$mount" ] && echo yes || echo no) $([ -e "$work/run" ] && echo yes || echo no)"
expect "the value stays in force without a daemon" 123 "$(ask one tunable cut_budget)"
expect "the machine's too" 8388608 "$(ask one tunable cut_min)"
start_daemon
within 8 test -e "$mount/$client_pid/stats" || complain "the process does not come back"
expect "the next daemon knows what was set for the process" 123 "$(cat "$mount/$client_pid/tunables/cut_budget")"
expect "and nothing of the old machine values" default "$(cat "$mount/tunables/cut_min")"
within 5 test "$(ask one tunable cut_min)" = 4194304 || complain "the old machine value stays in force"
expect_ok "it can be let go" put "$mount/$client_pid/tunables/cut_budget" default
expect "back to its own" 1000 "$(ask one tunable cut_budget)"

# --- the daemon and its keeper are killed ---------------------------------------------------------------------------------------------
for _ in 1 2 3; do
    kill_daemon
    expect_error "the mount is dead" "Transport endpoint is not connected" cat "$mount/version"
    start_daemon
    within 8 test -e "$mount/$client_pid/stats" || complain "the process does not come back after a crash"
done
expect "mounts are not piled up" 1 "$(grep -c " $mount " /proc/self/mountinfo)"

# --- two daemons --------------------------------------------------------------------------------------------------------
expect_error "the same socket" "another gmlaked serves this socket" \
    "$bin_dir/gmlaked" --mountpoint "$work/other" --socket "$socket"
expect_error "the same mountpoint" "mounted there already" \
    "$bin_dir/gmlaked" --mountpoint "$mount" --socket "$work/other.sock"
expect "neither left anything" "" "$(cd "$work" && ls -d other* 2>/dev/null)"
expect_ok "the first goes on" cat "$mount/version"
: >"$work/file"
expect_error "a file where the socket should be" "not a socket" \
    "$bin_dir/gmlaked" --mountpoint "$work/other" --socket "$work/file"
expect_error "a file on the way to the mountpoint" "Not a directory" \
    "$bin_dir/gmlaked" --mountpoint "$work/file/x" --socket "$work/other.sock"
expect_error "a name too long for a socket" "has at most" \
    "$bin_dir/gmlaked" --mountpoint "$work/other" --socket "$work/$(printf '%0200d' 1)"
expect "none of them left anything" "" "$(cd "$work" && ls -d other* file.lock 2>/dev/null)"
expect_error "an unknown option" "see gmlaked --help" "$bin_dir/gmlaked" --nonsense
expect_error "a stray argument" "no argument is expected" "$bin_dir/gmlaked" x
expect_error "a socket below the mount" "below the mountpoint" \
    "$bin_dir/gmlaked" --mountpoint "$work/other" --socket "$work/other/socket"
expect_error "no directory for the text file" "cannot open the directory" \
    "$bin_dir/gmlaked" --mountpoint "$work/other" --socket "$work/other.sock" --textfile "$work/nowhere"
expect "that left nothing either" "" "$(cd "$work" && ls -d other* 2>/dev/null)"
expect_error "a bad interval" "not a number of seconds" "$bin_dir/gmlaked" --textfile "$work=0"

expect_error "a text file in the mount" "in the mount itself" \
    "$bin_dir/gmlaked" --mountpoint "$work/other" --socket "$work/other.sock" --textfile "$work/other/"
ln -s other "$work/link"
expect_error "a text file in the mount by way of a link" "cannot open the directory" \
    "$bin_dir/gmlaked" --mountpoint "$work/other" --socket "$work/other.sock" --textfile "$work/link/"
rm "$work/link"

# --- unmounted from outside ------------------------------------------------------------------------------------------------
umount "$mount"
wait "$daemon_pid"
expect "exit code after umount" 0 $?
daemon_pid=
grep -q "unmounted from outside" "$work/daemon.log" || complain "the log does not say so"

# --- what the daemon had is taken from under it ------------------------------------------------------------------------
mkdir "$work/text"
cd "$work" || exit 1
daemon_options=(--textfile text=1)
start_daemon
cd / || exit 1
start_client staying
staying=$client_pid
serial=$(cat "$mount/$staying/serial")
expect "a relative directory for the text file" gmlake.prom "$(ls "$work/text")"
kill -STOP "$(serving_pid)"
expect_error "the doctor, while the daemon is stopped" "$mount does not answer" \
    timeout 10 "$bin_dir/gmlake" doctor --mount "$mount"
kill -CONT "$(serving_pid)"
rm -r "$work/text"
kill -KILL "$(serving_pid)"
expect_ok "who takes over does without the text file" timeout 10 cat "$mount/version"
mkdir "$work/text"
within 5 test -s "$work/text/gmlake.prom" || complain "a directory made anew is not written to"
rm -r "${socket%/*}"
within 20 test -S "$socket" || complain "the socket is not made anew"
start_client late
expect "who was there is the same" "$serial" "$(cat "$mount/$staying/serial")"
ask late quit >/dev/null
ask staying quit >/dev/null
stop_daemon
expect "nothing is left of the socket" no "$([ -e "${socket%/*}" ] && echo yes || echo no)"
daemon_options=()

# --- in the background, with a service manager --------------------------------------------------------------------------------
expect_ok "--daemon" "$bin_dir/gmlaked" --daemon --mountpoint "$mount" --socket "$socket"
expect "it is mounted when the command returns" "gmlake 0.1.0 abi 1" "$(cat "$mount/version")"
daemon_pid=$(pgrep -f "gmlaked --daemon --mountpoint $mount" | head -1)
kill -TERM "$daemon_pid"
not_mounted()
{
    ! is_mounted
}
within 5 not_mounted || complain "the background daemon does not end"
daemon_pid=
expect_error "--daemon reports failure" "not started" \
    "$bin_dir/gmlaked" --daemon --mountpoint "$mount" --socket "$work/file"
if command -v python3 >/dev/null; then
    python3 - "$work/notify" >"$work/notified" <<'END' &
import socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind(sys.argv[1])
s.settimeout(20)
print(s.recv(100).decode(), flush=True)
print(s.recv(100).decode(), flush=True)
END
    listener=$!
    within 5 test -e "$work/notify"
    NOTIFY_SOCKET=$work/notify start_daemon
    stop_daemon
    wait "$listener"
    expect "notices" "READY=1 STOPPING=1" "$(tr '\n' ' ' <"$work/notified" | sed 's/ $//')"
else
    echo "note: python3 is not installed; notices to a service manager are left out"
fi
finish
