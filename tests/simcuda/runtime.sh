#!/bin/sh
# Runs PROGRAM (runtime.c with one form of the CUDA runtime) and checks in the driver's log what the runtime asked for.
# Skipped (77) where there is no toolkit.
set -eu
if [ ! -x "$1" ]; then
    echo "skipped: no CUDA runtime at configure time"
    exit 77
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
SIMCUDA_LOG=$log "$1"
lookups=$(grep -c ' cuGetProcAddress_v2(.*) = 0' "$log")
failed=$(grep -c ' cuGetProcAddress_v2(.*) = [1-9]' "$log" || true)
if [ "$lookups" -lt 400 ] || [ "$failed" -ne 0 ]; then
    echo "$lookups look-ups, $failed refused: the runtime has not got its functions"
    exit 1
fi
if [ "$(grep -c ' cuInit(' "$log")" -ne 1 ] || ! grep -q ' cuInit(0) = 0' "$log"; then
    echo "the runtime did not initialise the driver once"
    exit 1
fi
first=$(grep -n ' cuInit(' "$log" | cut -d: -f1)
if [ "$first" -le "$lookups" ]; then
    echo "the driver was initialised in line $first, before the look-ups were done"
    exit 1
fi
grep -q ' cuGetExportTable(.*) = 500' "$log"
echo "$lookups look-ups, then cuInit, then the private tables, which are refused"
