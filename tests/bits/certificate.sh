#!/bin/sh
# A certificate made on one layout is verified on others: any instruction set, one thread, three ranks, after a resume.
# CERTIFIER is another heddle that makes it: of another compiler, or for another kind of CPU (tools/check-neon).
. "$SRCDIR/tests/tap.sh"
certifier=${CERTIFIER:-$HEDDLE} run=$folder/run

# verifies TITLE OPTIONS...: with the instruction set in $isa.
verifies() {
  title="lenet5, verified with $1"
  shift
  if HEDDLE_ISA=$isa "$HEDDLE" verify "$run/certificate.json" "$@" >"$folder/out" 2>"$folder/err"; then
    result pass "$title"
  elif grep -q HEDDLE_ISA "$folder/err"; then result skip "$title: $(cat "$folder/err")"
  else result fail "$title" "$(cat "$folder/out" "$folder/err")"; fi
}

mkdir "$folder/data" && "$BUILDDIR/tests/bits/make_idx" "$folder/data" 384 100 || { echo "Bail out! no data"; exit 1; }
"$certifier" train --model lenet5 --data "$folder/data" --max-steps 2 --threads 4 --procs 1 --out "$run" \
  >"$folder/log" 2>&1 &&
  "$certifier" train --resume "$run" --max-steps 3 --threads 2 >>"$folder/log" 2>&1 &&
  "$certifier" certify "$run" >>"$folder/log" 2>&1 || { cat "$folder/log"; echo "Bail out! no certificate"; exit 1; }
rm "$run/losses.bin" # the chain of the certificate must do
for isa in scalar avx2 avx512 neon; do verifies "$isa, one thread" --threads 1; done
isa=
verifies "the plain plan" --plain --threads 2
isa=
if [ -n "${NO_RANKS:-}" ]; then result skip "$NO_RANKS"; else verifies "three ranks" --procs 3 --threads 1; fi
sed 's/"lr": *"0.001"/"lr": "0.002"/' "$run/certificate.json" >"$folder/changed.json"
if "$HEDDLE" verify "$folder/changed.json" --threads 1 >"$folder/out" 2>&1; then
  result fail "a changed certificate is refuted" "$(cat "$folder/out")"
elif [ $? = 3 ]; then result pass "a changed certificate is refuted"
else result fail "a changed certificate is refuted" "$(cat "$folder/out")"; fi
echo "1..$count"
