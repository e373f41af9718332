#!/bin/bash
# user.sh - a daemon of an ordinary user: below $XDG_RUNTIME_DIR, for his own processes, found by them without help.
# Where only root may open /dev/fuse, the test lays a node for everybody over it in a mount namespace of its own.
if [ -z "${GMLAKE_TEST_NAMESPACE:-}" ] && [ "$(id -u)" = 0 ] && unshare --mount true 2>/dev/null; then
    GMLAKE_TEST_NAMESPACE=1 exec unshare --mount "$0" "$@"
fi
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

[ "$(id -u)" = 0 ] || skip "needs root, to be an ordinary user"
command -v setpriv >/dev/null || skip "setpriv is not installed"
[ ! -e /run/gmlake/gmlaked.sock ] || skip "the machine's own daemon runs; processes prefer it"
# The user `nobody`, since fusermount3 wants one with a name.
as_user=(setpriv --reuid 65534 --regid 65534 --clear-groups env -u GMLAKE_SOCKET "XDG_RUNTIME_DIR=$work/runtime")
if ! "${as_user[@]}" test -w /dev/fuse && [ -n "${GMLAKE_TEST_NAMESPACE:-}" ]; then
    mknod -m 666 "$work/fuse" c 10 229 && mount --bind "$work/fuse" /dev/fuse
fi
"${as_user[@]}" test -w /dev/fuse || skip "ordinary users may not open /dev/fuse here"
chmod 755 "$work"
mkdir -m 700 "$work/runtime"
chown 65534 "$work/runtime"
cp "$client_program" "$work/client" # the build may be where other users cannot go
cp "$bin_dir/gmlaked" "$work/gmlaked"
mount=$work/runtime/gmlake/mount

come_up()
{
    "${as_user[@]}" "$work/gmlaked" 2>>"$work/daemon.log" &
    daemon_pid=$!
    if ! within 10 "${as_user[@]}" test -e "$mount/version"; then
        complain "the user's daemon does not come up"
        finish
    fi
}

come_up
mkfifo -m 666 "$work/in"
"${as_user[@]}" "$work/client" <"$work/in" >"$work/out" &
client_pid=$!
client_pids+=("$client_pid")
exec {in}>"$work/in"
within 10 "${as_user[@]}" test -e "$mount/$client_pid/stats" || complain "the user's process does not appear"
expect_ok "the user tunes" "${as_user[@]}" bash -c "echo 5 >'$mount/$client_pid/tunables/cut_budget'"
expect "and has it" 5 "$("${as_user[@]}" cat "$mount/$client_pid/tunables/cut_budget")"
expect_ok "he may set his machine's values" "${as_user[@]}" bash -c "echo 8M >'$mount/tunables/cut_min'"
expect_error "root stays out" "Permission denied" cat "$mount/version"
expect "the socket is his alone" "600 65534" "$(stat -c '%a %u' "$work/runtime/gmlake/gmlaked.sock")"

kill_daemon
come_up
within 10 "${as_user[@]}" test -e "$mount/$client_pid/stats" || complain "the process does not come back after a crash"
expect_error "without XDG_RUNTIME_DIR" "XDG_RUNTIME_DIR is not set" "${as_user[@]}" env -u XDG_RUNTIME_DIR "$work/gmlaked"

echo quit >&"$in"
kill -TERM "$daemon_pid"
wait "$daemon_pid"
expect "exit code" 0 $?
daemon_pid=
expect "nothing is left but what the killed daemon made" gmlake "$(ls -A "$work/runtime")"
finish
