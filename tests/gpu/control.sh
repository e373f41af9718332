#!/bin/bash
# control.sh - an operator at a training program on a GPU: what is written to the mount acts on real device memory.
# Prints each step with what nvidia-smi says the device has in use. Exit 1 if one does not act, 77 without a GPU.
set -u -o pipefail
here=$(cd "$(dirname "$0")" && pwd)
bin=${GMLAKE_TEST_BIN_DIR:-$here/../../build/release/bin}
python=${PYTHON:-python3}
for needed in nvidia-smi "$python"; do
    command -v "$needed" >/dev/null || { echo "skipped: no $needed"; exit 77; }
done
nvidia-smi -L >/dev/null 2>&1 || { echo "skipped: no GPU"; exit 77; }
"$python" -c 'import torch' 2>/dev/null || { echo "skipped: no PyTorch"; exit 77; }
if [ ! -w /dev/fuse ] || [ "$(id -u)" != 0 ]; then
    echo "skipped: no FUSE here, or not root"
    exit 77
fi

work=$(mktemp -d)
mount=$work/mount
export GMLAKE_SOCKET=$work/socket
failed=0
clean_up()
{
    exec 2>/dev/null
    kill "${program:-}" "${daemon:-}"
    wait
    umount -l "$mount"
    rm -rf "$work"
}
trap clean_up EXIT

used() { nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits | head -n 1; }
# show WHAT: one line of the transcript.
show() { printf '%-58s device %6s MiB, current %12s\n' "$1" "$(used)" "$(cat "$mount/$pid/current")"; }
# check WHAT CONDITION: arithmetic, as in (( )).
check() { (($2)) || { echo "FAILED: $1"; failed=1; }; }
ask() { echo "$*" >&"${to[1]}"; read -r -t 60 answer <&"${to[0]}"; }

"$bin/gmlaked" --mountpoint "$mount" --socket "$GMLAKE_SOCKET" &
daemon=$!
for ((i = 0; i < 100; i++)); do [ -e "$mount/version" ] && break; sleep 0.1; done
[ -e "$mount/version" ] || { echo "skipped: gmlaked cannot mount here"; exit 77; }
coproc to { exec "$bin/gmlake" run -- "$python" "$here/control.py"; }
# shellcheck disable=SC2154 # coproc sets it
program=$to_PID
read -r -t 120 answer <&"${to[0]}" || { echo "FAILED: the program does not start"; exit 1; }
pid=$program
for ((i = 0; i < 100; i++)); do [ -e "$mount/$pid/stats" ] && break; sleep 0.1; done
[ -e "$mount/$pid/stats" ] || { echo "FAILED: the program is not in the mount"; exit 1; }

show "a model trains ($answer)"
ask grow 24
show "grew by 24 GiB in $answer, and freed them"
before=$(used)
echo 1G >"$mount/$pid/tunables/stitch_min"
sleep 0.5
grep '^stitch_min' "$mount/$pid/tunables/.applied"
check "stitch_min is in force" "$(grep -c '^stitch_min want=1073741824 now=1073741824' "$mount/$pid/tunables/.applied") == 1"
echo 8G >"$mount/$pid/reclaim"
show "echo 8G > reclaim"
after=$(used)
check "reclaim gave back 8 GiB: $before -> $after MiB" "before - after >= 8000"
echo 10G >"$mount/$pid/max"
sleep 1
show "echo 10G > max, nobody allocates"
check "max acts on an idle process" "$(cat "$mount/$pid/current") <= 10737418240"
ask try 16
show "16 GiB in one piece: $answer"
[ "$answer" = "out of memory" ] || { echo "FAILED: max does not hold"; failed=1; }
ask step
show "the program goes on ($answer)"
echo max >"$mount/$pid/max"
ask try 16
show "echo max > max, 16 GiB in one piece: $answer"
[ "$answer" = served ] || { echo "FAILED: max does not end"; failed=1; }
echo 4G >"$mount/$pid/high"
sleep 1
show "echo 4G > high, nobody allocates"
check "high acts on an idle process" "$(cat "$mount/$pid/current") <= 4294967296"
ask step
show "the program goes on ($answer)"
echo max >"$mount/$pid/reclaim" || true
show "echo max > reclaim"
grep -E '^(requested|reserved|reserved_peak|reclaimed|high_events|max_events|oom|driver_ns) ' "$mount/$pid/stats"
cat "$mount/$pid/pools" "$mount/stats" | head -n 6
ls "$mount/gpu"
exit $failed
