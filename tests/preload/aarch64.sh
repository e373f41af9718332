#!/bin/bash
# aarch64.sh - the preload library, the simulated driver and the programs that test it built for 64-bit ARM and run by
# qemu: the doors there are other instructions, and glibc's first version is another one.
set -eu -o pipefail

source_dir=${GMLAKE_TEST_SOURCE_DIR:?run this through ctest}
compiler=aarch64-linux-gnu-gcc
emulator=qemu-aarch64
for tool in "$compiler" "$emulator"; do
    if ! command -v "$tool" >/dev/null; then
        echo "skipped: $tool is not installed"
        exit 77
    fi
done
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT

flags=(-O2 -g -std=gnu11 -D_GNU_SOURCE -DNDEBUG -Wall -Wextra -Werror "-isystem$source_dir/core/cu/abi")
core=(-fPIC -shared -fvisibility=hidden "-I$source_dir/include")
files=()
for layer in base cu ctl vmm pool api preload; do
    core+=("-I$source_dir/core/$layer")
    files+=("$source_dir/core/$layer"/*.c)
done
"$compiler" -E -P -x c "-I$source_dir/core/preload" "$source_dir/core/preload/preload.map.in" >preload.map
"$compiler" "${flags[@]}" "${core[@]}" "${files[@]}" -o libgmlake_preload.so -Wl,--version-script=preload.map \
    -Wl,-Bsymbolic-functions -Wl,-z,nodelete -Wl,--no-undefined &
simcuda=$source_dir/tools/simcuda
cmake -D "table=$simcuda/exports.def" -D output=exports.map -P "$simcuda/exports.cmake"
"$compiler" "${flags[@]}" -fPIC -shared -fvisibility=hidden -D__CUDA_API_VERSION_INTERNAL "-I$simcuda" "$simcuda"/*.c \
    "$simcuda"/calls/*.c -o libcuda.so.1 -Wl,-soname,libcuda.so.1 -Wl,--version-script=exports.map -Wl,-Bsymbolic
wait $!

programs=$source_dir/tests/preload
flags+=("-I$source_dir/core/preload" "-I$simcuda" -rdynamic)
"$compiler" "${flags[@]}" "$programs"/exercise*.c "$programs"/{calls,report}.c -o exercise
"$compiler" "${flags[@]}" "$programs/lookup.c" -o lookup -Wl,--no-as-needed -L. -l:libcuda.so.1
"$compiler" "${flags[@]}" -fPIC -shared "$programs/shim.c" -o libshim.so

failed=0
run()
{
    timeout 100 "$emulator" -L /usr/aarch64-linux-gnu -E "LD_LIBRARY_PATH=$PWD" -E "LD_PRELOAD=$1" -E SIMCUDA_LEAKS=0 \
        "${@:2}" 2>/dev/null
}

# same PROGRAM ARGUMENT...: it says the same without and with the library, but for what tells them apart.
same()
{
    run "" "$@" | grep -vE '^(driver|object):' >bare
    run "$PWD/libgmlake_preload.so" "$@" >preloaded
    if ! grep -vE '^(driver|object):' preloaded | diff bare - || [ ! -s bare ]; then
        echo "$*: not the same"
        failed=1
    fi
}

for door in dlsym dlvsym proc proc2; do
    for scenario in plain streams attributes captures-beside; do
        same ./exercise "$door" "$scenario"
        grep -qE '^driver: cuMemCreate [1-9]' preloaded || { echo "$door $scenario: not served"; failed=1; }
    done
done
same ./lookup versions
grep -q libgmlake_preload.so preloaded || { echo "no look-up is answered by a hook"; failed=1; }
same ./lookup quiet
# next FIRST SECOND OBJECT: with these preloaded, the shim's next definition is that object's.
next()
{
    run "$1:$2" ./lookup next >next.out || { echo "$1, $2: the next definitions change"; failed=1; }
    grep -qx "object: cuMemAlloc_v2 $3" next.out || { echo "$1, $2: not $3 is next"; failed=1; }
}
next "$PWD/libgmlake_preload.so" "$PWD/libshim.so" libcuda.so.1
next "$PWD/libshim.so" "$PWD/libgmlake_preload.so" libgmlake_preload.so
exit "$failed"
