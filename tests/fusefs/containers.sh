#!/bin/bash
# containers.sh - processes that are somebody else's pid 1, readers in mount namespaces, and pids that are used again.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

[ "$(id -u)" = 0 ] || skip "needs root, to make namespaces"
unshare --pid --fork --mount true 2>/dev/null || skip "no namespaces can be made here"

# The directory above the mount is what a container gets, as a mount that hears of others.
base=$work/base
mkdir "$base"
mount --bind "$base" "$base"
mount --make-shared "$base"
mount=$base/mount
leave()
{
    exec 2>/dev/null
    kill -KILL "${containers[@]}"
    clean_up_base
}
clean_up_base()
{
    clean_up
    umount -l "$base"
    rm -rf "$work"
}
containers=()
trap leave EXIT

start_daemon

# --- a reader in a container, over deaths of the daemon ---------------------------------------------------------------
mkfifo "$work/inner.in" "$work/inner.out"
unshare --mount --propagation slave bash -c '
    exec 3<"$1/version"
    while read -r what; do
        case $what in
            held) head -1 <&3 ;;
            anew) cat "$1/version" 2>&1 ;;
            list) ls "$1" >/dev/null 2>&1 && echo listed ;;
        esac
    done' inner "$mount" <"$work/inner.in" >"$work/inner.out" 2>&1 &
containers+=($!)
exec {inner_in}>"$work/inner.in" {inner_out}<"$work/inner.out"
inside()
{
    local answer
    echo "$1" >&"$inner_in"
    read -r -t 10 answer <&"$inner_out"
    echo "$answer"
}
version=$(cat "$mount/version")
expect "in a container" "$version" "$(inside anew)"
expect "and by an open file" "$version" "$(inside held)"
for round in 1 2 3; do
    kill -KILL "$(serving_pid)"
    expect "after death $round" "$version" "$(inside anew)"
    expect "a listing" listed "$(inside list)"
done
# With the keeper dead as well a new mount comes, and the container hears of it.
kill_daemon
start_daemon
expect "in the container, after the mount was made anew" "$version" "$(inside anew)"

# --- pid 1, fifty times --------------------------------------------------------------------------------------------------
count=50
[ -z "${GMLAKE_TEST_SANITIZE:-}" ] || count=12
mkfifo "$work/crowd.in"
exec {crowd_in}<>"$work/crowd.in"
for _ in $(seq "$count"); do
    GMLAKE_SOCKET=$socket unshare --pid --fork --kill-child "$client_program" <&"$crowd_in" >/dev/null &
    containers+=($!)
done
counted()
{
    grep -qx "processes $1" "$mount/stats"
}
within 20 counted "$count" || complain "there are $(head -1 "$mount/stats"), not $count"
for pid in "$mount"/[0-9]*; do
    expect "inside it is" "1" "$(awk '/^NSpid:/ { print $3 }' "/proc/${pid##*/}/status")"
    expect "the name is that of" fusefs_client "$(cat "$pid/comm")"
done
start=$(date +%s%N)
kill -KILL "${containers[-1]}"
within 5 counted $((count - 1)) || complain "a container that ended is still there"
echo "a container has left after $((($(date +%s%N) - start) / 1000000)) ms"
kill -KILL "${containers[@]:1}" 2>/dev/null
within 10 counted 0 || complain "containers that ended are still there"
exec {crowd_in}>&-

# --- a pid that is used again ------------------------------------------------------------------------------------------
mkfifo "$work/again.in"
exec {again_in}<>"$work/again.in"
# again PID: a client by that pid, if others are not faster, which is why it is tried some times.
again()
{
    local try
    for try in $(seq 100); do
        echo $(($1 - 1)) 2>/dev/null >/proc/sys/kernel/ns_last_pid || return 1
        GMLAKE_SOCKET=$socket "$client_program" <&"$again_in" >/dev/null &
        client_pids+=($!)
        [ $! != "$1" ] || return 0
        kill -KILL $!
        wait $! 2>/dev/null
    done
    echo "note: the pid could not be had again in $try tries; its reuse is left out"
    return 1
}
# another SERIAL: the pid is the directory of a later registration.
another()
{
    [ "$(cat "$mount/$pid/serial")" -gt "$1" ]
}
start_client first
pid=$client_pid
serial=$(cat "$mount/$pid/serial")
put "$mount/$pid/tunables/cut_budget" 5
exec {first}<"$mount/$pid/stats"
kill -KILL "$pid"
wait "$pid" 2>/dev/null
if again "$pid"; then
    within 5 another "$serial" || complain "the pid's next process is not another"
    expect "it has nothing of the first's" 1000 "$(cat "$mount/$pid/tunables/cut_budget")"
    expect_error "a file of the first" "No such process" cat <&"$first"
    # The same while no daemon looks: the next daemon may not take the one for the other.
    serial=$(cat "$mount/$pid/serial")
    put "$mount/$pid/tunables/cut_budget" 6
    serving=$(serving_pid)
    exec {second}<"$mount/$pid/stats"
    kill -STOP "$serving"
    kill -KILL "$pid"
    wait "$pid" 2>/dev/null
    again "$pid"
    taken=$?
    kill -KILL "$serving"
    if [ $taken = 0 ]; then
        within 5 another "$serial" || complain "the third process passes for the second"
        expect "it has nothing of the second's" 1000 "$(cat "$mount/$pid/tunables/cut_budget")"
        expect_error "a file of the second" "No such process" cat <&"$second"
    fi
fi
for name in "${containers[@]:0:1}"; do
    kill -KILL "$name"
done
stop_daemon
finish
