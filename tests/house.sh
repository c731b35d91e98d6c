#!/bin/sh
# TAP: no figure of tools/house is above its bound, and the check can fail; tools/follow-calls finds ways; docs/tour.md
# names files and functions that are there.
echo 1..7
if out=$("$SRCDIR/tools/house" "$SRCDIR" 2>&1); then echo "ok 1 - each figure is within its bound"; else
  echo "not ok 1 - each figure is within its bound"
fi
echo "$out" | sed 's/^/# /'
folder=$(mktemp -d)
mkdir -p "$folder/src" "$folder/include"
{
  echo 'void f(int a, int b, int c, int d, int e, int g, int h) {'
  seq 60 | sed 's/.*/  a++;/'
  echo '}'
} >"$folder/src/f.c"
if out=$("$SRCDIR/tools/house" "$folder" 2>/dev/null); then echo "not ok 2 - a function of 62 lines is found"; else
  if echo "$out" | grep -qx 'functions_longest 62 55' && echo "$out" | grep -q '^functions_of_seven_parameters 1 '; then
    echo "ok 2 - a function of 62 lines is found"
  else
    echo "not ok 2 - a function of 62 lines is found"
    echo "$out" | sed 's/^/# /'
  fi
fi

# Calls by name, of a static function, through a table, in an argument, and by a member that is named as a function.
printf 'static int middle(const int *given, int n) {\n  return last(n, given);\n}\n' >"$folder/src/f.c"
printf 'int first(const int *config) {\n  return THEN(middle(config, 1));\n}\n' >>"$folder/src/f.c"
printf 'const table hd_table = {.run = middle};\nint aside(int *config) { return config->first; }\n' >"$folder/src/t.c"
printf '/* first(config) */\nint last(int n, const int *it) { return hd_end(n) + puts("first"); }\n' >"$folder/src/l.c"
printf 'int hd_end(int n) { return n; }\nint start(void) { return hd_table.run(0, 1); }\n' >"$folder/src/e.c"

# follows NUMBER WHAT WANTED ARGUMENTS...: what the walk prints, FILE FUNCTION after FILE FUNCTION.
follows() {
  number=$1 what=$2 wanted=$3
  shift 3
  found=$(cd "$folder" && "$SRCDIR/tools/follow-calls" "$@" 2>&1 | tr '\n' ' ')
  if [ "$found" = "$wanted " ]; then echo "ok $number - $what"; else
    echo "not ok $number - $what"
    echo "# expected '$wanted', found '$found'"
  fi
}
follows 3 'a way is all that stands between its ends' \
  'src/e.c hd_end src/f.c first src/f.c src/f.c:middle src/l.c last' way first hd_end
follows 4 'a value is followed under its names, and not where another is passed' \
  'src/f.c first src/f.c src/f.c:middle src/l.c last' from first config
follows 5 'a call through a pointer is one where it is told' \
  'src/e.c hd_end src/e.c start src/f.c src/f.c:middle src/l.c last' -e start=middle way start hd_end

# shellcheck disable=SC2016 # backquotes are those of pages
# lost PAGE: what a page names that is not there: files of the tree; functions in a table, each beside its file.
lost() {
  grep -o '`[a-z]*/[a-z0-9_/]*\.[a-z]*`' "$1" | tr -d '`' | sort -u | while read -r file; do
    [ -e "$SRCDIR/$file" ] || echo "$file"
  done
  sed -n 's/^| `\([a-z0-9_/.]*\)` | \(`[^|]*`\) | .*/\1 \2/p' "$1" | tr -d '`,' | while read -r file names; do
    for name in $names; do
      grep -qE "^[a-z].*\\b$name(\\(|\\[\\])" "$SRCDIR/$file" || echo "$file $name"
    done
  done
}
found=$(lost "$SRCDIR/docs/tour.md")
named=$(grep -c '^| `[a-z0-9_/.]*` | `' "$SRCDIR/docs/tour.md")
[ "$named" -ge 10 ] || found="expected tables of files and functions, found $named rows"
if [ -z "$found" ]; then echo "ok 6 - the tour names files and functions that are there"; else
  echo "not ok 6 - the tour names files and functions that are there"
  echo "$found" | sed 's/^/# /'
fi
# shellcheck disable=SC2016
printf '| `src/cli/main.c` | `main`, `gone` | what |\n`src/cli/gone.c`\n' >"$folder/page.md"
found=$(lost "$folder/page.md" | tr '\n' ' ')
if [ "$found" = "src/cli/gone.c src/cli/main.c gone " ]; then
  echo "ok 7 - a file and a function that are missing are named"
else
  echo "not ok 7 - a file and a function that are missing are named"
  echo "# found '$found'"
fi
rm -rf "$folder"
