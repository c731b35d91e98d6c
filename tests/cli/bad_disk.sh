#!/bin/bash
# TAP: a run with saves on a file system on which one call fails: the first, the second, to the last, of each kind.
# Either the run comes to its end with the right digest, or it ends with one line of error and exit code 1, nothing half
# written is left, and it is resumed to the right digest. In `make check` a sample of the calls, with `make check-bits`
# every one.
[ -n "${BASH_VERSION-}" ] || exec bash "$0"
. "$SRCDIR/tests/tap.sh"
unset HEDDLE_ISA HEDDLE_DATA OMP_NUM_THREADS NO_COLOR
export HOME=$folder LC_ALL=C
cd "$folder" || exit 1
bad_disk=$BUILDDIR/tests/cli/.libs/bad_disk.so
T="--model simplenet --max-steps 6 --save-every 2 --eval-every 4 --keep 2 --seed 3"
case $(nm -D "$BUILDDIR/.libs/heddle" 2>/dev/null) in
*__asan*) echo "1..0 # SKIP a sanitizer wants to be the first library"; exit 0 ;;
esac
digest() { sed -n 's/^weights_sha256  *//p' "$1"; }
"$HEDDLE" train $T --out whole >out 2>&1 || { sed 's/^/# /' out; echo "Bail out! no run"; exit 1; }
wanted=$(digest out)

# try CALL N ERROR TEXT: what is wrong with the outcome, nothing if it is as it must be; `seen` is there if the call
# failed.
try() {
  local code=0 go_on="--resume x"
  rm -rf x seen
  BAD_DISK=$1:$2:$3:$4 BAD_DISK_SEEN=$folder/seen LD_PRELOAD=$bad_disk timeout 60 "$HEDDLE" train $T --out ./x \
    >out 2>err || code=$?
  [ -e seen ] || return
  case $code in
  0) [ "$(digest out)" = "$wanted" ] || echo "another digest" ;;
  1)
    [ "$(wc -l <err)" = 1 ] || echo "more or less than one line"
    grep -q '^heddle: .*\(expected.*found\|; \)' err || echo "no line of error"
    [ -L x/last ] || go_on="$T --out x"
    [ -L x/last ] || [ ! -d x/step-2 ] || go_on="--resume x/step-2" # a checkpoint without its link
    [ -z "$(find x -name '.*' ! -name x 2>/dev/null)" ] || echo "left: $(find x -name '.*')"
    timeout 60 "$HEDDLE" train $go_on >out 2>again || sed 's/^/resumed: /' again
    [ "$(digest out)" = "$wanted" ] || echo "another digest when resumed" ;;
  *) echo "exit code $code" ;;
  esac
  ! grep -Eqs '.[{]"type"|[^}]$' x/history.jsonl || echo "a line of history.jsonl is not whole"
  for link in last best; do
    [ "$(readlink x/$link)" = "$(readlink whole/$link)" ] || echo "$link is $(readlink x/$link)"
  done
  # A report that cannot be written is a warning, and no failure of the run.
  local warned
  warned=$(sed -n 's/^heddle: warning: cannot write .*\(report\.html\): .*/\1/p' err)
  comm -13 <(ls -A x) <(ls -A whole) | grep -vx "$warned" |
    sed 's/^/missing: /'
  [ -z "$(find x -name '.*' ! -name x)" ] || echo "left: $(find x -name '.*')"
}

# walk CALL ERROR STRIDE [TEXT]: of the calls whose path holds the text, /x by default
walk() {
  local n=1 tried=0 wrong=
  [ "$depth" -ge 3 ] && set -- "$1" "$2" 1 "${4-/x}"
  while [ "$n" -lt 1000 ]; do
    was=$(try "$1" "$n" "$2" "${4-/x}")
    [ -e seen ] || break
    tried=$((tried + 1))
    [ -z "$was" ] || wrong="$wrong$1 $n: $was, said: $(cat err)
"
    n=$((n + $3))
  done
  [ "$tried" -gt 0 ] || wrong="no such call"
  result "$([ -z "$wrong" ] && echo pass || echo fail)" "$2 from $1: $tried calls, up to number $((n - $3))" "$wrong"
}
walk fsync EIO 7
walk fsync EINTR 17
walk write ENOSPC 9
walk write ENOSPC 1 /x/history.jsonl # lines that are added
walk rename EIO 7
walk renameat2 EINVAL 3
walk open EMFILE 9
walk symlink ENOSPC 3
walk mkdir ENOSPC 3
echo "1..$count"
