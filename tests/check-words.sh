#!/bin/sh
# TAP: no retired word is left, and the check can fail.
. "$SRCDIR/tests/tap.sh"
out=$("$SRCDIR/tools/check-words" "$SRCDIR" 2>&1)
result $? "no retired word in names and texts" "$out"
# These are written in two parts, so that the check does not find them here.
mkdir -p "$folder/tree/src" "$folder/tree/docs"
echo 'int hd__wait_for_hei''rs(void);' >"$folder/tree/src/wait.h"
echo 'typedef struct hd_stret''ch hd_segment;' >"$folder/tree/src/plan.h"
echo '/* What becomes o''f it. */' >"$folder/tree/src/fate.c"
echo 'A thread waits.' >"$folder/tree/docs/page.md"
"$SRCDIR/tools/check-words" "$folder/tree" >"$folder/out" 2>&1
[ $? = 1 ] && grep -q wait.h "$folder/out" && grep -q plan.h "$folder/out"
result $? "a word inside an identifier is found" "$(cat "$folder/out")"
grep -q fate.c "$folder/out"
result $? "a phrase is found" "$(cat "$folder/out")"
if grep -q page.md "$folder/out"; then result fail "other lines are not"; else result pass "other lines are not"; fi
echo "1..$count"
