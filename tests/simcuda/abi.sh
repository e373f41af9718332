#!/bin/sh
# Compares what two builds of abi.c print: abi.sh OWN TOOLKIT. Skipped (77) where there is no toolkit to compare with.
set -eu
if [ ! -x "$2" ]; then
    echo "skipped: no CUDA Toolkit at configure time"
    exit 77
fi
own=$(mktemp)
toolkit=$(mktemp)
trap 'rm -f "$own" "$toolkit"' EXIT
"$1" > "$own"
"$2" > "$toolkit"
lines=$(wc -l < "$own")
if [ "$lines" -lt 200 ]; then
    echo "only $lines facts were compared: the list of values is broken"
    exit 1
fi
diff "$own" "$toolkit"
echo "$lines facts agree"
