#!/bin/bash
# switched.sh - the tunable `enabled` is set to 0, and to 1 again, in a program that runs: new memory is the driver's from
# then on, the memory that lay idle stands in nobody's way, and blocks served before stay valid.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

start_daemon
mkfifo "$work/in" "$work/out"
export LD_LIBRARY_PATH=$GMLAKE_TEST_SIMCUDA_DIR GMLAKE_SOCKET=$socket SIMCUDA_MEMORY=256M SIMCUDA_LEAKS=0
LD_PRELOAD=$SANITIZER_RUNTIME${SANITIZER_RUNTIME:+:}$GMLAKE_TEST_LIB_DIR/libgmlake_preload.so \
    "$GMLAKE_TEST_BUILD_DIR/tests/preload/programs/exercise" proc0 switched <"$work/in" >"$work/out" &
pid=$!
client_pids+=("$pid")
exec {in}>"$work/in" {out}<"$work/out"

# until LINE: the program's output up to that line, which goes to $said.
until_line()
{
    local line
    said=
    while read -r -t 20 line <&"$out"; do
        [ "$line" != "$1" ] || return 0
        said+="$line"$'\n'
    done
    complain "the program does not come to '$1'"
    return 1
}

round="cuMemAlloc: 0
cuMemFree: 0
cuMemAllocAsync: 0
cuMemFreeAsync: 0
cuCtxSynchronize: 0
holds its bytes: yes
"
until_line "switch off"
expect "served" "$round" "$said"
within 10 test -e "$mount/$pid/tunables/enabled" || complain "the process does not appear"
expect_ok "switched off" put "$mount/$pid/tunables/enabled" 0
echo >&"$in"
until_line "switch on"
expect "left to the driver" "$round" "$said"
expect_ok "switched on" put "$mount/$pid/tunables/enabled" 1
echo >&"$in"
until_line end
expect "served again" "$round" "$said"
echo >&"$in"
until_line "misuses: 0"
# Once, or once more when there was room for it.
grep -qx "driver: cuMemAlloc_v2 [12]" <<<"$said" && grep -qx "driver: cuMemAllocAsync [12]" <<<"$said"
expect "one allocation each was the driver's" 0 $?
wait "$pid"
expect "exit code" 0 $?
finish
