#!/bin/sh
# TAP: each fuzz target runs for HD_FUZZ_SECONDS (60) with libFuzzer and the address and undefined-behaviour sanitizers,
# and finds nothing.
. "$SRCDIR/tests/tap.sh"
if ! command -v clang >/dev/null; then
  echo "1..0 # SKIP expected clang, found none; Debian: clang"
  exit 0
fi
"$SRCDIR/tools/fuzz" -s "${HD_FUZZ_SECONDS:-60}" -o "$BUILDDIR/fuzz" >"$folder/out" 2>&1
code=$?
while read -r line; do # TARGET: N runs, N findings
  case $line in
  *': no runs,'*) result fail "$line" ;;
  *' runs, 0 findings') result pass "$line" ;;
  *' findings') result fail "$line" "see $BUILDDIR/fuzz" ;;
  esac
done <"$folder/out"
[ $code -eq 0 ] && [ "$count" -gt 0 ]
result $? "all targets ran" "$(tail -n 20 "$folder/out")"
echo "1..$count"
