#!/bin/bash
# source.sh CHECK - looks over the source tree. Prints file:line: message for what is wrong; exits 1 then, 77 where
# the program a check needs is not installed. `source.sh list` prints the checks.
set -u -o pipefail

cd "${GMLAKE_TEST_SOURCE_DIR:-$(dirname "$0")/../..}" || exit 1
failed=0

complain()
{
    printf '%s\n' "$*"
    failed=1
}

# Complains about every line of standard input, which is file:line:text, giving the reason.
complain_each()
{
    local line
    while IFS= read -r line; do
        complain "$line  <- $1"
    done
}

need()
{
    if ! command -v "$1" >/dev/null; then
        echo "skipped: $1 is not installed"
        exit 77
    fi
}

# files PATTERN...: the files of the project, committed or new, that match the patterns of git ls-files.
files()
{
    if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
        git ls-files -co --exclude-standard -- "$@" | sort -u | while IFS= read -r file; do
            [ -f "$file" ] && printf '%s\n' "$file"
        done
    else
        local pattern
        for pattern in "$@"; do
            find . \( -path ./build -o -path ./.git \) -prune -o -type f -path "./${pattern}" -print | sed 's|^\./||'
        done | sort -u
    fi
}

# code FILE: the C source without comments and the insides of strings, as file:line:text.
code()
{
    gcc -fpreprocessed -dD -E -x c - <"$1" 2>/dev/null | awk -v file="$1" '
        /^# [0-9]+ "<stdin>"/ { line = $2 - 1; next }
        /^# [0-9]+ / { next }
        { gsub(/"([^"\\\\]|\\\\.)*"/, "\"\""); line++; print file ":" line ":" $0 }'
}

# --- the checks -------------------------------------------------------------------------------------------------

# No file over 600 lines: a file is one idea.
check_size()
{
    local file lines
    while IFS= read -r file; do
        lines=$(wc -l <"$file")
        if [ "$lines" -gt 600 ]; then
            complain "$file: $lines lines; 600 is the limit"
        fi
    done < <(files '*.c' '*.h' '*.def' '*.sh' '*.cmake' '*CMakeLists.txt')
}

# core/ is a guest in somebody's process: it never ends it, writes to its standard output or trusts the environment
# of a set-uid program. secure_getenv belongs where settings are read.
check_host()
{
    local file word='(^|[^A-Za-z0-9_.>])' text
    while IFS= read -r file; do
        text=$(code "$file")
        host_rule "$text" "${word}(exit|_exit|_Exit|quick_exit|abort|raise|err|errx)[[:space:]]*\(" \
            "core never ends its host"
        host_rule "$text" "${word}(printf|vprintf|puts|putchar)[[:space:]]*\(|${word}stdout([^A-Za-z0-9_]|$)|STDOUT_FILENO" \
            "core never writes to standard output"
        host_rule "$text" "${word}(getenv|setenv|putenv|unsetenv|system|popen)[[:space:]]*\(" \
            "core reads the environment by secure_getenv only, and never changes it"
        host_rule "$text" '__attribute__\(\(.*constructor|:# *include <cuda_runtime' \
            "core does nothing when it is loaded"
        case "$file" in
        core/ctl/* | core/preload/* | core/base/log.*) ;;
        *)
            host_rule "$text" "${word}secure_getenv[[:space:]]*\(" \
                "settings are read in core/ctl, core/preload and core/base/log only"
            ;;
        esac
    done < <(files 'core/*.c' 'core/*.h')
}

# host_rule TEXT PATTERN REASON: complains about the lines of TEXT that match.
host_rule()
{
    complain_each "$3" < <(grep -E "$2" <<<"$1")
}

# layer_uses LAYER: the layers it names in its gm_layer(... USES ...).
layer_uses()
{
    tr '\n' ' ' <"core/$1/CMakeLists.txt" 2>/dev/null |
        sed -n "s/.*gm_layer($1 [^)]*USES \([^)]*\)).*/\1/p"
}

# layer_closure LAYER: it and all layers below it.
layer_closure()
{
    local todo=("$1") seen=' ' layer
    while [ "${#todo[@]}" -gt 0 ]; do
        layer=${todo[0]}
        todo=("${todo[@]:1}")
        case "$seen" in *" $layer "*) continue ;; esac
        seen="$seen$layer "
        # shellcheck disable=SC2207 # a list of words is what it is
        todo+=($(layer_uses "$layer"))
    done
    printf '%s\n' "$seen"
}

# includes FILE: the quoted includes as "line name".
includes()
{
    awk -F'"' '/^[[:space:]]*#[[:space:]]*include[[:space:]]*"/ { print FNR, $2 }' "$1"
}

# check_includes FILE FOLDER...: each quoted include is a file of one of the folders, and is no path.
check_includes()
{
    local file=$1 line name folder found
    shift
    while read -r line name; do
        case "$name" in
        ../simcuda/*) name=${name#../} ;;
        *..*) complain "$file:$line: \"$name\" climbs out of its folder" && continue ;;
        esac
        found=
        for folder in "$(dirname "$file")" "$@"; do
            if [ -e "$folder/$name" ]; then
                found=1
            fi
        done
        if [ -z "$found" ] && [ -n "$(files "core/*/$name" "fusefs/$name" "tools/*/$name" "tools/$name")" ]; then
            complain "$file:$line: \"$name\" belongs to a layer that this one does not use"
        fi
    done < <(includes "$file")
}

# A lower layer never includes a higher one. In the order below a layer uses those before it.
check_layers()
{
    local order='base cu ctl vmm pool api preload' layer used file rank=0 folders
    declare -A ranks
    for layer in $order; do
        ranks[$layer]=$((rank++))
    done
    for layer in $order; do
        for used in $(layer_uses "$layer"); do
            if [ -z "${ranks[$used]:-}" ] || [ "${ranks[$used]}" -ge "${ranks[$layer]}" ]; then
                complain "core/$layer/CMakeLists.txt: $layer uses $used, which is not below it ($order)"
            fi
        done
        folders=()
        for used in $(layer_closure "$layer"); do
            folders+=("core/$used")
        done
        while IFS= read -r file; do
            check_includes "$file" "${folders[@]}"
        done < <(files "core/$layer/*.c" "core/$layer/*.h" "core/$layer/*.def")
    done
    # The daemon and the tools never see a pool, and the public headers nothing at all. Of another tool, a tool sees
    # what it names with the tool's folder.
    while IFS= read -r file; do
        check_includes "$file" fusefs core/base core/cu core/ctl
    done < <(files 'fusefs/*.c' 'fusefs/*.h')
    while IFS= read -r file; do
        check_includes "$file" "$(cut -d/ -f1,2 <<<"$file")" tools core/base core/cu core/ctl
    done < <(files 'tools/*.c' 'tools/*.h')
    while IFS= read -r file; do
        if [ -n "$(includes "$file")" ]; then
            complain "$file: public headers include <gmlake/...> and libc only"
        fi
    done < <(files 'include/*')
}

# Nothing that belongs to one machine or to a work in progress; text files end in a newline and hold no stray blanks.
check_words()
{
    local file texts=() sources marker='TO''DO|FIX''ME|XX''X|HA''CK' place='/wo''rk/|/ho''me/[a-z]|/mn''t/|/Us''ers/'
    while IFS= read -r file; do
        case "$file" in
        tests/data/* | tests/fuzz/corpus/* | LICENSE) continue ;;
        esac
        texts+=("$file")
        if [ -s "$file" ] && [ -n "$(tail -c1 "$file")" ]; then
            complain "$file: no newline at the end"
        fi
    done < <(files '*' | grep -vE '\.(gz|png|bin)$')
    mapfile -t sources < <(files '*.c' '*.h' '*.def')
    complain_each "unfinished work" < <(grep -nHE "(^|[^A-Za-z])($marker)([^A-Za-z]|$)" "${texts[@]}")
    complain_each "a path of one machine" < <(grep -nHE "$place" "${texts[@]}")
    complain_each "blanks at the end of the line" < <(grep -nHE '[[:blank:]]+$' "${texts[@]}")
    complain_each "a carriage return" < <(grep -nH $'\r' "${texts[@]}")
    complain_each "a tab in C" < <(grep -nH $'\t' "${sources[@]}")
}

# Every C source and header opens with a comment that says what it is.
check_headers()
{
    local file
    while IFS= read -r file; do
        if [ "$(head -c 2 "$file")" != '/*' ]; then
            complain "$file:1: does not begin with a comment that says what it is"
        fi
    done < <(files '*.c' '*.h' '*.def')
}

check_format()
{
    local formatter file sources
    formatter=$(command -v clang-format-14 || command -v clang-format) || need clang-format
    mapfile -t sources < <(files '*.c' '*.h')
    while IFS= read -r file; do
        complain "$file: not formatted; run clang-format -i on it"
    done < <("$formatter" --dry-run "${sources[@]}" 2>&1 | sed -n 's/^\([^:]*\):.*clang-format-violations.*/\1/p' | sort -u)
}

check_shell()
{
    need shellcheck
    mapfile -t scripts < <(files '*.sh' '.ci/*')
    # SC2317 does not see functions that are called by a name put together at run time; SC2016 takes a program for another
    # shell, rightly in single quotes, for a mistake.
    shellcheck --exclude=SC2016,SC2317 --external-sources --source-path=SCRIPTDIR "${scripts[@]}" || failed=1
}

check_spelling()
{
    need codespell
    mapfile -t texts < <(files '*' | grep -vE '^(tests/data/|LICENSE)|\.(gz|bin)$')
    codespell --quiet-level=3 --ignore-words-list=nd "${texts[@]}" || failed=1
}

# The manual pages that the build made: no warning of the formatter, and every file of the mount is described.
check_manual()
{
    local page formatter name
    while IFS= read -r name; do
        grep -qE "(^|[^a-z_])${name//./\\.}([^a-z_]|$)" tools/man/gmlake.5.in ||
            complain "tools/man/gmlake.5.in: does not describe the file $name, which fusefs/node.c shows"
    done < <(sed -n 's/^    {"\([a-z_.]\{1,\}\)",.*/\1/p' fusefs/node.c)
    formatter=$(command -v mandoc || command -v groff) || need mandoc
    for page in "${GMLAKE_TEST_BUILD_DIR:?run this check through ctest}"/man/*.[1-8]; do
        [ -s "$page" ] || complain "$page: not made"
        case "$formatter" in
        *mandoc) "$formatter" -T lint -W warning "$page" || failed=1 ;;
        *) complain_each "groff" < <("$formatter" -ww -z -mdoc -Tutf8 "$page" 2>&1) ;;
        esac
    done
}

checks=$(declare -F | sed -n 's/^declare -f check_//p' | grep -v '^includes$')
case "${1:-}" in
list) printf '%s\n' "$checks" ;;
*)
    if ! grep -qx "${1:-}" <<<"$checks"; then
        echo "usage: source.sh CHECK, one of: $(tr '\n' ' ' <<<"$checks")" >&2
        exit 2
    fi
    "check_$1"
    exit "$failed"
    ;;
esac
