#!/bin/sh
# TAP: valgrind finds no invalid access and no leak in the examples. Valgrind does not support AVX-512, and the threads
# of an OpenMP runtime outlive a program: one thread, AVX2 or what every CPU has.
samples="64 16"
. "$SRCDIR/tests/examples_lib.sh"
if ! command -v valgrind >/dev/null; then
  echo "1..0 # SKIP valgrind is not installed"
  exit 0
fi
if nm -D "$BUILDDIR/.libs/libheddle.so" 2>/dev/null | grep -q __asan; then
  echo "1..0 # SKIP sanitizers and valgrind do not go together"
  exit 0
fi
case $("$BUILDDIR/libtool" --mode=execute valgrind -q "$BUILDDIR/examples/squares" 1 2>&1) in
*"unhandled dwarf"*)
  echo "1..0 # SKIP this valgrind cannot read this compiler's debug information; build with CFLAGS='-g -O2 -gdwarf-4'"
  exit 0
  ;;
esac
OMP_NUM_THREADS=1
HEDDLE_ISA=scalar
grep -q avx2 /proc/cpuinfo 2>/dev/null && HEDDLE_ISA=avx2
export OMP_NUM_THREADS HEDDLE_ISA

run() { # EXAMPLE ARGS...
  example=$1
  shift
  "$BUILDDIR/libtool" --mode=execute valgrind -q --error-exitcode=99 --leak-check=full \
    --errors-for-leak-kinds=definite,indirect "$BUILDDIR/examples/$example" "$@"
}

"$HEDDLE" train --model simplenet --data data --max-steps 2 --out run >train.out 2>&1
check "train_cnn" run train_cnn data 2
check "own_loop" run own_loop data 12
check "own_network" run own_network data 2
check "custom_op" run custom_op data 2
check "inference" run inference run run/wrong.png
check "squares" run squares 1000
check "files" run files "$SRCDIR/README.md" none
check "batches" run batches data 2
RANK=0 WORLD_SIZE=1 check "allreduce" run allreduce 100
check "set_seed" run set_seed data 2
echo "1..$count"
