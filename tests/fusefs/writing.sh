#!/bin/bash
# writing.sh - every way to write a tunable gives the value or the error it should, and the process has it at once.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

start_daemon
start_client one
tunables=$mount/$client_pid/tunables
file=$tunables/stitch_min

# now NAME: what the process itself says is in force.
now()
{
    ask one tunable "$1"
}

# holds WHAT VALUE: in the file and in the process.
holds()
{
    expect "$1, file" "$2" "$(cat "$file")"
    expect "$1, process" "$2" "$(now stitch_min)"
}

# --- values -------------------------------------------------------------------------------------------------------
holds "start value" 0
while read -r text value; do
    expect_ok "echo $text" put "$file" "$text"
    holds "echo $text" "$value"
done <<'END'
4096 4096
4K 4096
64M 67108864
2g 2147483648
1T 1099511627776
0x1000 4096
0100 100
0 0
END
expect_ok "blanks" put "$file" "   7  "
holds "blanks" 7
expect_ok "max" put "$file" max
expect "max in the file" max "$(cat "$file")"
expect "max in the process" 18446744073709551615 "$(now stitch_min)"
expect_ok "set" put "$file" 4096

# --- errors: nothing changes ---------------------------------------------------------------------------------------
while read -r text; do
    expect_error "echo '$text'" "Invalid argument" put "$file" "$text"
done <<'END'
abc
4MB
4MiB
1.5G
-5
4M 5M

K
0x
defaults
END
expect_error "65 bits" "Numerical result out of range" put "$file" 18446744073709551616
expect_error "20 digits" "Numerical result out of range" put "$file" 99999999999999999999
expect_error "overflow by unit" "Numerical result out of range" put "$file" 99999999999T
expect_error "not 0 or 1" "Numerical result out of range" put "$tunables/enabled" 2
expect_error "below the range" "Numerical result out of range" put "$tunables/split_min" 511
expect_error "no limit where there is one" "Numerical result out of range" put "$tunables/split_min" max
expect_error "a zero byte" "Invalid argument" bash -c "printf '4096\\0' >'$file'"
expect_error "too long" "Argument list too long" bash -c "printf '%05000d' 1 >'$file'"
holds "after all that" 4096
expect_error "read-only file" "Permission denied" put "$mount/$client_pid/stats" 1
expect_error "read-only file, append" "Permission denied" bash -c "echo 1 >>'$mount/version'"

# --- tools ---------------------------------------------------------------------------------------------------------
expect_ok ": >" bash -c ": >'$file'"
holds ": > changes nothing" 4096
expect_ok "truncate" truncate -s 0 "$file"
holds "truncate changes nothing" 4096
expect_ok "touch" touch "$file"
holds "touch changes nothing" 4096
expect_ok ">>" bash -c "echo 5K >>'$file'"
holds ">>" 5120
expect_ok "tee" bash -c "echo 6K | tee '$file' >/dev/null"
holds "tee" 6144
expect_ok "tee -a" bash -c "echo 7K | tee -a '$file' >/dev/null"
holds "tee -a" 7168
expect_ok "two lines, two writes" bash -c "printf '1\n2\n' >'$file'"
holds "the last line wins" 2
expect_ok "no newline" bash -c "printf 12 >'$file'"
holds "no newline" 12
expect_error "two lines in one write" "Invalid argument" bash -c "printf '1\n2\n' | dd of='$file' bs=100 status=none iflag=fullblock"
holds "two lines in one write" 12
echo 8K >"$work/value"
expect_ok "cp" cp "$work/value" "$file"
holds "cp" 8192
expect_ok "dd" dd if="$work/value" of="$file" bs=512 status=none
expect_ok "dd without truncation" dd if="$work/value" of="$file" bs=512 conv=notrunc status=none
holds "dd" 8192
expect_error "sed -i" "Operation not permitted" sed -i s/8/9/ "$file"
holds "sed -i" 8192
expect_error "dd byte by byte" "Invalid argument" bash -c "echo K | dd of='$file' bs=1 status=none"
holds "dd byte by byte" 8192
if command -v python3 >/dev/null; then
    expect_ok "python" python3 -c 'import sys; open(sys.argv[1], "w").write("9K")' "$file"
    holds "python" 9216
    expect "python sees the error" "22" "$(python3 - "$file" <<'END'
import sys
f = open(sys.argv[1], "w", buffering=1)
try:
    f.write("nonsense\n")
except OSError as error:
    print(error.errno)
END
    )"
    expect "written and read on one descriptor" "10240" "$(python3 - "$file" <<'END'
import os, sys
fd = os.open(sys.argv[1], os.O_RDWR)
os.read(fd, 100)
os.write(fd, b"10K")
print(os.pread(fd, 100, 0).decode().strip())
END
    )"
    expect "after a write a reader goes on in the new text" "240" "$(python3 - "$file" <<'END'
import os, sys
fd = os.open(sys.argv[1], os.O_RDWR)
os.pread(fd, 100, 0)
os.write(fd, b"10K")        # the position is 3 now
os.lseek(fd, 2, os.SEEK_SET)
print(os.read(fd, 100).decode().strip())
END
    )"
else
    echo "note: python3 is not installed; its writes are left out"
fi

# --- default, the machine, applied -----------------------------------------------------------------------------------
expect "the process's own value" ok "$(ask one own stitch_min 77)"
expect_ok "override" put "$file" 3
holds "the override wins" 3
expect_ok "default" put "$file" default
within 5 grep -qx 77 "$file" || true # the process publishes its own value some time later
holds "default lets go" 77
expect "machine: nothing set" default "$(cat "$mount/tunables/stitch_min")"
expect_ok "machine" put "$mount/tunables/stitch_min" 1M
holds "the machine's value is in force" 1048576
expect_ok "own override" put "$file" 2M
holds "the process's override wins" 2097152
expect_ok "let go" put "$file" default
holds "the machine's again" 1048576
expect_ok "machine lets go" put "$mount/tunables/stitch_min" default
holds "the process's own again" 77
expect_error "machine, bad value" "Invalid argument" put "$mount/tunables/stitch_min" x
expect_ok "set for .applied" put "$file" 5
within 5 grep -q '^stitch_min want=5 now=5 ' "$tunables/.applied" || complain ".applied does not confirm"
read -r _ _ _ serial seen < <(grep '^stitch_min ' "$tunables/.applied")
[ "${seen#seen=}" -ge "${serial#serial=}" ]
expect ".applied: seen ($seen) has reached serial ($serial)" 0 $?

# --- what a tree like this does not do ---------------------------------------------------------------------------------
expect_error "create" "Operation not permitted" touch "$mount/new"
expect_error "mkdir" "Operation not permitted" mkdir "$mount/new"
expect_error "rm" "Operation not permitted" rm "$mount/version"
expect_error "rmdir" "Operation not permitted" rmdir "$mount/tunables"
expect_error "mv" "Operation not permitted" mv "$mount/version" "$mount/other"
expect_error "ln" "Operation not permitted" ln "$mount/version" "$mount/other"
expect_error "ln -s" "Operation not permitted" ln -s version "$mount/other"
expect_error "mknod" "Operation not permitted" mknod "$mount/other" p
expect_error "chmod" "Operation not permitted" chmod 777 "$file"
expect_error "chown" "Operation not permitted" chown 1 "$file"

# --- a process that has gone --------------------------------------------------------------------------------------------
exec {held_read}<"$mount/$client_pid/stats" {held_write}>"$file"
kill -KILL "$client_pid"
within 5 test ! -e "$mount/$client_pid" || complain "the directory stays"
expect_error "read" "No such process" cat <&"$held_read"
expect_error "write" "No such process" bash -c "echo 1 >&$held_write"
exec {held_read}<&- {held_write}>&-
stop_daemon
finish
