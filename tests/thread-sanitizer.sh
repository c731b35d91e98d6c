#!/bin/sh
# TAP: the thread sanitizer finds no race in barriers, rings, pools, groups, calls, loaders and runs of two threads and
# two ranks. It is a separate build, of the reference kernels: minutes.
. "$SRCDIR/tests/tap.sh"
programs="tests/unit/test_barrier tests/unit/test_threads tests/unit/test_batch_ring tests/unit/test_pool
  tests/unit/test_group tests/unit/test_rpc"
programs="$programs tests/unit/test_loader"
build=$BUILDDIR/thread-sanitizer
mkdir -p "$build" && cd "$build" || exit 1
[ -f Makefile ] ||
  "$SRCDIR/configure" ${CC:+CC="$CC"} CFLAGS='-O1 -g' --disable-shared --without-scdoc --enable-sanitizers=thread \
  >make.log 2>&1 ||
  { sed 's/^/# /' make.log | tail -n 20; echo "Bail out! no configuration"; exit 1; }
# shellcheck disable=SC2086
make HAVE_ISA= libheddlecore_la_LIBADD=libkernel_double.la libheddlecore_la_DEPENDENCIES=libkernel_double.la \
  heddle tests/bits/make_idx tests/bits/make_data $programs >make.log 2>&1 ||
  { sed 's/^/# /' make.log | tail -n 20; echo "Bail out! no build"; exit 1; }

export TSAN_OPTIONS="ignore_noninstrumented_modules=1 exitcode=66"
export BUILDDIR="$build" HEDDLE="$build/heddle" HEDDLE_ISA=reference
quiet() { # NAME COMMAND...
  name=$1
  shift
  "$@" >"$folder/out" 2>&1
  code=$?
  [ $code -eq 0 ] && ! grep -q 'WARNING: ThreadSanitizer' "$folder/out"
  result $? "no race in $name" "exit status $code: $(grep -A 12 'WARNING: ThreadSanitizer\|^not ok' "$folder/out" |
    head -n 40)"
}
for program in $programs; do
  quiet "${program##*/}" "$build/$program"
done
mkdir "$folder/data" && "$build/tests/bits/make_idx" "$folder/data" 64 24 || exit 1
options="--model simplenet --data $folder/data --batch 8 --epochs 3 --save-every 2 --val-split 0.25"
# shellcheck disable=SC2086
{
  quiet "a run of two threads" "$HEDDLE" train $options --threads 2 --out "$folder/threads"
  quiet "a run of two threads and loader workers" "$HEDDLE" train $options --threads 2 --workers 2 \
    --out "$folder/workers"
  quiet "a run of two ranks" "$HEDDLE" train $options --threads 1 --procs 2 --out "$folder/ranks"
}
echo "1..$count"
