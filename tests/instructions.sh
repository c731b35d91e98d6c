#!/bin/sh
# TAP: a training step takes no more instructions than were recorded (bench/instructions), and the count can fail.
skip() {
  echo "1..0 # SKIP $1"
  exit 0
}
command -v valgrind >/dev/null || skip "valgrind is not installed"
grep -q avx2 /proc/cpuinfo 2>/dev/null || skip "this CPU has no AVX2, of which counts are recorded"
nm "$BUILDDIR/bench/count_steps" 2>/dev/null | grep -q __asan && skip "sanitizers and valgrind do not go together"
compiler=$("$BUILDDIR/bench/count_steps" simplenet 1x28x28 1 | cut -d. -f1)
grep -q " $compiler " "$SRCDIR/bench/instructions.txt" || skip "no counts of ${compiler:-this build} are recorded"
case $(HEDDLE_ISA=avx2 valgrind -q "$BUILDDIR/bench/count_steps" simplenet 1x28x28 1 2>&1) in
*"unhandled dwarf"*)
  skip "this valgrind cannot read this compiler's debug information; build with CFLAGS='-g -O2 -gdwarf-4'" ;;
esac
grep -q -- "^CFLAGS = -O2 -g1*$" "$BUILDDIR/Makefile" || skip "counts are of builds with CFLAGS='-O2 -g1'"

count=0
result() { # STATUS NAME FILE
  count=$((count + 1))
  if [ "$1" -eq 0 ]; then echo "ok $count - $2"; else echo "not ok $count - $2"; fi
  sed 's/^/# /' "$3"
}
code=0
"$SRCDIR/bench/instructions" "$BUILDDIR" >counts 2>&1 || code=$?
result $code "a step takes no more instructions than recorded" counts

mkdir -p lower && cp "$SRCDIR/bench/instructions" lower/
awk '$1 == "simplenet" { $NF = int($NF / 1.2) } { print }' "$SRCDIR/bench/instructions.txt" >lower/instructions.txt
code=0
sh lower/instructions "$BUILDDIR" simplenet >counts 2>&1 || code=$?
[ $code -eq 1 ] && grep -q "^simplenet: .* +[12][0-9]\." counts
result $? "a fifth more are found" counts
echo "1..$count"
