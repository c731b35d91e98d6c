#!/bin/sh
# TAP: links between pages lead to files and headings that are there, and the check can fail.
. "$SRCDIR/tests/tap.sh"
out=$("$SRCDIR/tools/check-links" "$SRCDIR" 2>&1)
result $? "every link between pages leads somewhere" "$out"

mkdir "$folder/docs"
printf '# Page\n\n[a](other.md#two-words) [b](#page) [c](https://example.org/nowhere)\n\n    [code](nowhere.md)\n' \
  >"$folder/docs/page.md"
printf '# Other\n\n## Two `words`\n\n[back](../docs/page.md#page)\n' >"$folder/docs/other.md"
out=$("$SRCDIR/tools/check-links" "$folder" 2>&1)
result $? "files, headings and other hosts are accepted" "$out"

echo '[x](gone.md) [y](other.md#gone)' >>"$folder/docs/page.md"
! out=$("$SRCDIR/tools/check-links" "$folder" 2>&1) &&
  [ "$out" = "docs/page.md:6: expected a file for the link gone.md, found none
docs/page.md:6: expected a heading for the link other.md#gone, found none" ]
result $? "a file and a heading that are missing are named" "$out"
echo "1..$count"
