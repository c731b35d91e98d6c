#!/bin/sh
# TAP: pages of the site have a description for search engines: a page's first paragraph, a header's comment.
. "$SRCDIR/tests/tap.sh"
sphinx=$(command -v sphinx-build) && "$(sed -n '1s/^#!//p' "$sphinx")" -c 'import myst_parser' 2>/dev/null || {
  echo "1..0 # SKIP Sphinx and MyST are not installed"
  exit 0
}
sphinx-build -q -b html -c "$SRCDIR/docs/site" -d "$folder/trees" -D root_doc=README \
  -D include_patterns=README.md,include/heddle/status.h "$SRCDIR" "$folder/html" >"$folder/said" 2>&1
result $? "pages are made" "$(cat "$folder/said")"
described() { # PAGE TEXT
  line=$(grep -o '<meta name="description" content="[^"]*"' "$folder/html/$1")
  case $line in
  *"content=\"$2"*) result pass "$1 is described" ;;
  *) result fail "$1 is described" "$line" ;;
  esac
}
described README.html "heddle trains small neural networks on CPUs"
described include/heddle/status.html "$(sed -n '1s#^/\* *\([A-Za-z ]*\).*#\1#p' "$SRCDIR/include/heddle/status.h")"
echo "1..$count"
