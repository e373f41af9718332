#!/bin/bash
# access.sh - who may look and who may write, for other users than root.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

[ "$(id -u)" = 0 ] || skip "needs root, to be other users"
command -v setpriv >/dev/null || skip "setpriv is not installed"
chmod 755 "$work"
cp "$client_program" "$work/client" # the build may be where other users cannot go

as()
{
    local user=$1
    shift
    setpriv --reuid "$user" --regid "$user" --clear-groups "$@"
}

start_daemon
start_client root_owned
of_root=$client_pid
mkfifo "$work/user.in"
GMLAKE_SOCKET=$socket setpriv --reuid 4321 --regid 4321 --clear-groups "$work/client" <"$work/user.in" >"$work/user.out" &
of_user=$!
client_pids+=("$of_user")
exec {user_in}>"$work/user.in"
within 5 test -e "$mount/$of_user/stats" || complain "a user's process does not appear"

expect "owner" "4321 4321 500" "$(stat -c '%u %g %a' "$mount/$of_user")"
expect "uid" 4321 "$(cat "$mount/$of_user/uid")"
for file in version stats metrics tunables/cut_min; do
    expect_ok "everybody reads $file" as 4322 cat "$mount/$file"
done
expect_ok "everybody sees who is there" as 4322 ls "$mount"
for pid in "$of_root" "$of_user"; do
    for file in stats comm tunables/cut_min tunables/.applied; do
        expect_error "a stranger, $file" "Permission denied" as 4322 cat "$mount/$pid/$file"
    done
    expect_error "a stranger lists" "Permission denied" as 4322 ls "$mount/$pid"
    expect_error "a stranger writes" "Permission denied" as 4322 bash -c "echo 1 >'$mount/$pid/tunables/cut_budget'"
done
expect_ok "the owner reads" as 4321 cat "$mount/$of_user/stats"
expect_ok "the owner writes" as 4321 bash -c "echo 5 >'$mount/$of_user/tunables/cut_budget'"
expect "and has it" 5 "$(as 4321 cat "$mount/$of_user/tunables/cut_budget")"
expect_error "the owner, another's" "Permission denied" as 4321 cat "$mount/$of_root/stats"
expect_error "not the machine's" "Permission denied" as 4321 bash -c "echo 5 >'$mount/tunables/cut_budget'"
expect_error "no new files" "Permission denied" as 4321 touch "$mount/$of_user/new"
expect_ok "root writes the user's" put "$mount/$of_user/tunables/cut_budget" 6
expect_ok "root writes the machine's" put "$mount/tunables/cut_min" 8M

# An owner's look must not open the directory to others by way of a cache.
as 4321 ls "$mount/$of_user" >/dev/null
expect_error "right after the owner looked" "Permission denied" as 4322 cat "$mount/$of_user/stats"
expect "the socket is everybody's" 666 "$(stat -c %a "$socket")"
echo quit >&"$user_in"
stop_daemon
finish
