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

# check_rights NAME: of a root's daemon, as it is started now.
check_rights()
{
    start_daemon
    start_client "root_owned$1"
    of_root=$client_pid
    mkfifo "$work/user$1.in"
    GMLAKE_SOCKET=$socket setpriv --reuid 4321 --regid 4321 --clear-groups "$work/client" <"$work/user$1.in" >"$work/user$1.out" &
    of_user=$!
    client_pids+=("$of_user")
    exec {user_in}>"$work/user$1.in"
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
    expect "nothing is for all to write" "" "$(find "$mount" -perm -002 ! -type l)"
    # A descriptor does not carry another's rights along: what counts was checked when it was opened.
    expect_error "a stranger opens what the owner may write" "Permission denied" \
        as 4322 bash -c "exec 3<>'$mount/$of_user/tunables/cut_budget'"
    expect_error "root's file by way of the owner" "Permission denied" \
        as 4321 bash -c "exec 3<>'$mount/tunables/cut_budget'"
    echo quit >&"$user_in"
    exec {user_in}>&-
    stop_daemon
}

check_rights root
# A daemon without rights guards the same.
export ASAN_OPTIONS=detect_leaks=0 # a leak checker cannot look into it
daemon_options=(--user nobody)
check_rights nobody
daemon_options=(--user nobody-at-all)
expect_error "an unknown user" "there is no user nobody-at-all" \
    "$bin_dir/gmlaked" --mountpoint "$mount" --socket "$socket" "${daemon_options[@]}"
expect_error "only root may choose" "only root can become" \
    as 4321 env XDG_RUNTIME_DIR="$work" "$bin_dir/gmlaked" --mountpoint "$work/x" --socket "$work/y" --user nobody
finish
