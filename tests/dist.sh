#!/bin/sh
# TAP: what is released: `make dist` packs every file of the repository, so that what is made of the archive is what is
# made of a clone; and what states the version or the soname agrees.
. "$SRCDIR/tests/tap.sh"
unset MAKEFLAGS MAKELEVEL
version=$(sed -n 's/^AC_INIT(\[heddle\], \[\([0-9.]*\(-dev\)\{0,1\}\)\].*/\1/p' "$SRCDIR/configure.ac")
# Until it is released a version has "-dev" behind it, and no date in the list of changes.
newest=$(sed -n 's/^## \([0-9.]*\) - [0-9-]*$/\1/p; s/^## \([0-9.]*\) - not released yet$/\1-dev/p' \
  "$SRCDIR/CHANGELOG.md" | head -n 1)
[ -n "$version" ] && [ "$version" = "$newest" ]
result $? "CHANGELOG.md begins with the version of configure.ac" "expected $version, found $newest"

debian=$(sed -n '1s/~/-/; 1s/^heddle (\([0-9.]*\(-dev\)\{0,1\}\)-.*/\1/p' "$SRCDIR/debian/changelog")
[ "$version" = "$debian" ]
result $? "and so does debian/changelog" "expected $version, found $debian"

if [ -f "$BUILDDIR/.libs/libheddle.so" ] && command -v readelf >/dev/null; then
  soname=$(readelf -d "$BUILDDIR/.libs/libheddle.so" | sed -n 's/.*SONAME.*\[\(.*\)\]/\1/p')
  grep -qx "_SONAME = \"$soname\" .*" "$SRCDIR/python/heddle/_binding.py"
  result $? "the Python package opens the library of this soname" "expected $soname in python/heddle/_binding.py"
  grep -qx "Package: $(echo "$soname" | sed 's/\.so\.//')" "$SRCDIR/debian/control"
  result $? "Debian's package has its name" "expected a package for $soname in debian/control"
else
  result skip "expected a shared library and readelf"
fi

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
