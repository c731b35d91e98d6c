#!/bin/sh
# TAP: what is released: `make dist` packs every file of the repository, so that what is made of the archive is what is made
# of a clone, and CHANGELOG.md begins with its version.
. "$SRCDIR/tests/tap.sh"
unset MAKEFLAGS MAKELEVEL
version=$(sed -n 's/^AC_INIT(\[heddle\], \[\([0-9.]*\)\].*/\1/p' "$SRCDIR/configure.ac")
newest=$(sed -n 's/^## \([0-9.]*\) - [0-9-]*$/\1/p' "$SRCDIR/CHANGELOG.md" | head -n 1)
[ -n "$version" ] && [ "$version" = "$newest" ]
result $? "CHANGELOG.md begins with the version of configure.ac" "expected $version, found $newest"

if files=$(git -C "$SRCDIR" ls-files 2>/dev/null) && [ -n "$files" ]; then
  packed=$(make -s -C "$BUILDDIR" dist-files)
  missing=$(echo "$files" | awk -v packed="$packed" '
    BEGIN { count = split(packed, name, "\n"); for (i = 1; i <= count; i++) known[name[i]] = 1 }
    /^\.ci\// || /^\.gitignore$/ { next } # of the repository alone
    { path = $0; while (!(path in known) && sub(/\/[^\/]*$/, "", path)); if (!(path in known)) print }')
  [ -n "$packed" ] && [ -z "$missing" ]
  result $? "the archive has every file of the repository" "expected in a list of files.mk, found in none: $missing"
else
  result skip "expected a git repository in $SRCDIR, found none"
fi
echo "1..$count"
