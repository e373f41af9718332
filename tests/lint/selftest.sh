#!/bin/bash
# selftest.sh - each rule of source.sh finds what it is for, in a scratch tree with one thing wrong at a time.
set -u

source_dir=${GMLAKE_TEST_SOURCE_DIR:?run this through ctest}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failed=0

# A tree in which nothing is wrong.
new_tree()
{
    rm -rf "$scratch/tree"
    mkdir -p "$scratch/tree"/core/{base,pool} "$scratch/tree"/{fusefs,tools/{one,two},include/gmlake}
    cd "$scratch/tree" || exit 1
    cp "$source_dir/.clang-format" .
    echo 'gm_layer(base SOURCES good.c)' >core/base/CMakeLists.txt
    echo 'gm_layer(pool SOURCES pool.c USES base)' >core/pool/CMakeLists.txt
    printf '/*\n * good.h - nothing wrong.\n */\nint good(void);\n' >core/base/good.h
    # What looks wrong only to one who does not see comments and strings.
    printf '/*\n * good.c - never calls exit(1) or printf("x").\n */\n#include "good.h"\n\nint good(void)\n{\n    return "abort()"[0];\n}\n' \
        >core/base/good.c
    printf '/*\n * pool.c - uses the layer below.\n */\n#include "good.h"\n' >core/pool/pool.c
    printf '/*\n * pool.h - of the upper layer.\n */\n' >core/pool/pool.h
    printf '#!/bin/sh\nfalse\ncode=$?\ntest "$(cat it; echo $?)" = $code\n' >tools/one/one.sh
    printf '/*\n * one.h - of one tool.\n */\n#include "good.h"\n' >tools/one/one.h
}

# expect CODE CHECK WHAT: runs the check on the tree as it is.
expect()
{
    local output code
    output=$(GMLAKE_TEST_SOURCE_DIR=$scratch/tree "$source_dir/tests/lint/source.sh" "$2" 2>&1)
    code=$?
    if [ "$code" -ne "$1" ] && [ "$code" -ne 77 ]; then
        printf '%s: %s: exit code %d, expected %d\n%s\n' "$2" "$3" "$code" "$1" "$output"
        failed=1
    fi
}

# finds CHECK FILE TEXT: the check complains about a file that has this text (printf's way) after its opening comment.
finds()
{
    new_tree
    # shellcheck disable=SC2059 # the text has escapes
    printf "/*\n * a file.\n */\n$3" >>"$2"
    expect 1 "$1" "$2 with '$3'"
}

new_tree
for check in size host layers words headers format shell; do
    expect 0 "$check" "a clean tree"
done
printf '#!/bin/sh\nfalse\ntest "$(cat it)" = $?\n' >tools/one/bad.sh
expect 1 shell "an exit code that is another command's"

finds host core/base/bad.c 'void f(void)\n{\n    exit(1);\n}\n'
finds host core/base/bad.c 'void f(void)\n{\n    printf("x");\n}\n'
finds host core/base/bad.c 'void f(void)\n{\n    fputs("x", stdout);\n}\n'
finds host core/base/bad.c 'char *f(void)\n{\n    return getenv("X");\n}\n'
finds host core/base/bad.c 'char *f(void)\n{\n    return secure_getenv("X");\n}\n'
finds host core/base/bad.c '__attribute__((constructor)) void f(void);\n'
finds layers core/base/bad.c '#include "pool.h"\n'
finds layers core/base/bad.c '#include "../pool/pool.h"\n'
finds layers fusefs/bad.c '#include "pool.h"\n'
finds layers tools/bad.c '#include "pool.h"\n'
finds layers tools/two/bad.c '#include "one.h"\n'
finds layers include/gmlake/bad.h '#include "good.h"\n'
finds words core/base/bad.c '/* TO''DO */\n'
finds words core/base/bad.c '/* /ho''me/somebody */\n'
finds words core/base/bad.c 'int x; \n'
finds words core/base/bad.c '\tint x;\n'
finds words core/base/bad.c 'int x;\r\n'
finds words core/base/bad.c 'int x;'
finds format core/base/bad.c 'int  x;\n'

new_tree
echo 'gm_layer(base SOURCES good.c USES pool)' >core/base/CMakeLists.txt
expect 1 layers "a layer that uses a higher one"
new_tree
echo 'int x;' >core/base/bad.c
expect 1 headers "a file without an opening comment"
new_tree
yes 'int x;' | head -n 601 >>core/base/good.h
expect 1 size "a file of more than 600 lines"
exit "$failed"
