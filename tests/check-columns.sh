#!/bin/sh
# TAP: no line of code, tests or tools has more than 120 columns, and the check can fail.
. "$SRCDIR/tests/tap.sh"
out=$("$SRCDIR/tools/check-columns" "$SRCDIR" 2>&1)
result $? "no line has more than 120 columns" "$out"
mkdir -p "$folder/tree/src" "$folder/tree/tools"
printf '%0120d\n' 0 >"$folder/tree/src/fits.c"
printf '%0121d\n' 0 >"$folder/tree/src/long_digests.h"
"$SRCDIR/tools/check-columns" "$folder/tree" >"$folder/out" 2>&1
result $? "120 columns and tables of digests are right" "$(cat "$folder/out")"
printf '%0121d\n' 0 >"$folder/tree/tools/tool"
if "$SRCDIR/tools/check-columns" "$folder/tree" >"$folder/out" 2>&1; then
  result fail "121 columns are found"
else
  grep -q '^tools/tool:1:' "$folder/out"
  result $? "121 columns are found" "$(cat "$folder/out")"
fi
echo "1..$count"
