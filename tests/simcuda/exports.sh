#!/bin/sh
# The library exports what exports.def lists and the queries of simcuda.h, and nothing else: exports.sh LIBRARY TABLE QUERIES
set -eu
wanted=$(mktemp)
got=$(mktemp)
trap 'rm -f "$wanted" "$got"' EXIT
{
    sed -n 's/^SIM_FUNCTION([A-Za-z0-9_]*, \([A-Za-z0-9_]*\),.*/\1/p' "$2"
    sed -n 's/^SIM_FUNCTION([A-Za-z0-9_]*, \([A-Za-z0-9_]*\), [0-9]*, PTDS,.*/\1_ptds/p' "$2"
    sed -n 's/^SIM_FUNCTION([A-Za-z0-9_]*, \([A-Za-z0-9_]*\), [0-9]*, PTSZ,.*/\1_ptsz/p' "$2"
    sed -n 's/^[a-z].*[ *]\(simcuda_[a-z_]*\)(.*/\1/p' "$3"
} | sort > "$wanted"
nm -D --defined-only "$1" | awk '{print $NF}' | sort > "$got"
diff "$wanted" "$got"
echo "$(wc -l < "$got") symbols"
