#!/bin/sh
# TAP: the layers hold, and the checks can fail.
echo 1..16
if out=$("$SRCDIR/tools/check-layers" "$SRCDIR"); then
  echo "ok 1 - includes keep to tools/layers.txt, without circles of headers; names of files are unique"
else
  echo "not ok 1 - includes keep to tools/layers.txt, without circles of headers; names of files are unique"
  echo "$out" | sed 's/^/# /'; fi
folder=$(mktemp -d)

# finds NUMBER WHAT: the check finds what stands in src, which is empty afterwards.
finds() {
  if "$SRCDIR/tools/check-layers" "$folder" >"$folder/out"; then
    echo "not ok $1 - $2 is found"
  else
    echo "ok $1 - $2 is found"
  fi
  sed 's/^/# /' "$folder/out"
  rm -rf "$folder/src"
  mkdir -p "$folder/src/base" "$folder/src/reduce"
}
mkdir -p "$folder/src/base" "$folder/src/reduce" "$folder/tools" "$folder/bench" "$folder/examples"
cp "$SRCDIR/tools/layers.txt" "$folder/tools"
echo '#include "train/run/session.h"' >"$folder/src/reduce/wrong.c"
finds 2 'a wrong #include'
echo '#include "base/second.h"' >"$folder/src/base/first.h"
echo '#include "base/first.h"' >"$folder/src/base/second.h"
finds 3 'a circle of headers'
echo '#include "base/first.h"' | tee "$folder/src/base/same.c" >"$folder/src/reduce/same.c"
finds 4 'a name that two files share'

if out=$("$SRCDIR/tools/check-calls" "$BUILDDIR"); then
  echo "ok 5 - files of a folder, and folders, call in one direction"
else
  echo "not ok 5 - files of a folder, and folders, call in one direction"
  echo "$out" | sed 's/^/# /'; fi

# calls NUMBER WANTED WHAT: what the check prints for the symbols on standard input has the line WANTED.
calls() {
  if "$SRCDIR/tools/check-calls" - >"$folder/out"; then found=none; else found=$(cat "$folder/out"); fi
  if echo "$found" | grep -qx -- "$2"; then echo "ok $1 - $3"; else echo "not ok $1 - $3"; fi
  echo "$found" | sed 's/^/# /'
}
calls 6 '  base/second.c calls one of base/first.c' 'a circle of files is found' <<'END'
src/base/libheddlecore_la-first.o: one T 0 1
src/base/libheddlecore_la-first.o: two U
src/base/.libs/second.o: two T 0 1
src/base/.libs/second.o: one U
END
calls 7 '  reduce/third.c calls one of base/first.c' 'a circle of folders is found' <<'END'
src/base/first.o: one T 0 1
src/base/first.o: three U
src/reduce/third.o: three T 0 1
src/reduce/third.o: one U
END
calls 8 none 'calls in one direction are none' <<'END'
src/base/first.o: one T 0 1
src/base/first.o: printf U
src/base/second.o: two T 0 1
src/base/second.o: one U
src/reduce/third.o: two U
END

mkdir -p "$folder/src/reduce"
echo '#include "reduce/chunks.h"' >"$folder/src/reduce/chunks.c"
sed 's/^reduce:.*/& exec/' "$SRCDIR/tools/layers.txt" >"$folder/tools/layers.txt"
finds 9 'a rule that lets a folder include a higher one'

cp "$SRCDIR/tools/layers.txt" "$folder/tools"
printf '#include "reduce/many.h"\nint many = hd__cluster_count(local) > 1;\n' >"$folder/src/reduce/many.c"
finds 10 'a test on the number of hosts'

mkdir -p "$folder/src/train/run"
printf 'int many(s) {\n  if (s->compute.cuda)\n    return 1;\n  return 2;\n}\n' >"$folder/src/train/run/kind.c"
echo '#include "train/run/session.h"' >>"$folder/src/train/run/kind.c"
finds 11 'a test on the device of a session'

mkdir -p "$folder/src/train/run"
echo '#include "exec/cpu/cpu_executor.h"' >"$folder/src/train/run/inside.c"
finds 12 'an executor that is not used through its interface'

# A reader finds these by the names of files alone.
missing=
for name in exec/executor.c exec/cpu/shards_phase.c exec/cpu/chunks_phase.c data/images/png.c \
  train/run/thread_count.c train/settings/options.def; do
  [ -f "$SRCDIR/src/$name" ] || missing="$missing src/$name"
done
if [ -z "$missing" ]; then
  echo "ok 13 - names say where a step runs, a PNG is read and the number of threads is decided"
else
  echo "not ok 13 - names say where a step runs, a PNG is read and the number of threads is decided"
  echo "# expected$missing"
fi

read_again=$(cd "$SRCDIR/src" && grep -rnE \
  '(strn?cmp|hd__parse_[a-z0-9]+)\([^;]*(hd__config_shown\(|hd_config_get\(|settings(\([a-z>-]*\))?->|'\
'facts\.(arithmetic|precision|optimizer))|hd__settings_read\(' \
  exec graph plan data train/checkpoint train/launch train/profile \
  train/placement train/records train/inference train/run tools)
if [ -z "$read_again" ]; then echo "ok 14 - settings are read as text in src/train/settings alone"; else
  echo "not ok 14 - settings are read as text in src/train/settings alone"
  echo "$read_again" | sed 's/^/# /'
fi
rm -rf "$folder"

found=$(cd "$SRCDIR" && grep -rl 'pthread_create *(' src)
if [ "$found" = src/platform/thread_start.c ]; then
  echo "ok 15 - threads are started in one place, which blocks signals"
else
  echo "not ok 15 - threads are started in one place, which blocks signals"
  echo "$found" | sed 's/^/# /'; fi

found=$(cd "$SRCDIR" && grep -rlE '(^|[^_])json_dump[a-z_]* *\(' src)
if [ "$found" = src/base/json_text.c ]; then
  echo "ok 16 - JSON becomes text in one place, which writes numbers in their shortest form"
else
  echo "not ok 16 - JSON becomes text in one place, which writes numbers in their shortest form"
  echo "$found" | sed 's/^/# /'; fi
