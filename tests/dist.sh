#!/bin/sh
# TAP: `make dist` packs every file of the repository, so that what is made of the archive is what is made of a clone.
echo 1..1
if ! files=$(git -C "$SRCDIR" ls-files 2>/dev/null) || [ -z "$files" ]; then
  echo "ok 1 # SKIP expected a git repository in $SRCDIR, found none"
  exit 0
fi
unset MAKEFLAGS MAKELEVEL
packed=$(make -s -C "$BUILDDIR" dist-files)
missing=$(echo "$files" | awk -v packed="$packed" '
  BEGIN { count = split(packed, name, "\n"); for (i = 1; i <= count; i++) known[name[i]] = 1 }
  /^\.ci\// || /^\.gitignore$/ { next } # of the repository alone
  { path = $0; while (!(path in known) && sub(/\/[^\/]*$/, "", path)); if (!(path in known)) print }')
if [ -n "$packed" ] && [ -z "$missing" ]; then echo "ok 1 - the archive has every file of the repository"; else
  echo "not ok 1 - the archive has every file of the repository"
  echo "$missing" | sed 's/^/# expected in a list of files.mk, found in none: /'
fi
