#!/bin/sh
# TAP: the settings of recipes, and a digest for each: the same over threads, instruction sets and a stop within the
# epoch. The data are few, so options take the place of a recipe's epochs and steps; all else is the recipe's.
. "$SRCDIR/tests/tap.sh"

# train OPTIONS...
train() {
  rm -f "$folder/json" # so that a failed run leaves none to be read
  "$HEDDLE" train --data "$folder/data" --json "$@" >"$folder/json" 2>"$folder/err"
}

# check RECIPE STEPS DIGEST OPTIONS...
check() {
  recipe=$1 steps=$2 wanted=$3
  shift 3
  for isa in scalar avx2 avx512 neon; do
    HEDDLE_ISA=$isa
    export HEDDLE_ISA
    for layout in 1,1,whole 2,1,stopped 3,4,whole 8,2,stopped; do
      threads=${layout%%,*} how=${layout##*,} accumulate=${layout#*,}
      accumulate=${accumulate%,*} title="$recipe, $isa, $threads threads, accumulate $accumulate, $how"
      rm -rf "$folder/run"
      set -- "$@" --threads "$threads" --accumulate "$accumulate"
      if [ $how = whole ]; then train --recipe "$recipe" --out "$folder/run" "$@"
      else
        train --recipe "$recipe" --out "$folder/run" --max-steps 3 "$@" &&
          train --resume "$folder/run" --max-steps "$steps" "$@"
      fi || {
        if grep -q HEDDLE_ISA "$folder/err"; then result skip "$isa: $(cat "$folder/err")" && continue; fi
      }
      found=$(values isa threads steps weights_sha256)
      [ "$found" = "$isa $threads $steps $wanted" ]
      result $? "$title" "expected $isa $threads $steps $wanted, found $found $(cat "$folder/err")"
    done
  done
  unset HEDDLE_ISA
}

mkdir "$folder/data"
"$BUILDDIR/tests/bits/make_idx" "$folder/data" 150 50 || { echo "Bail out! no data"; exit 1; }

# The constants. A change of one changes every user's results: the commit must give the reason.
check fastmnist 4 b59daee271b825100c3e2efba9e9d719c9982f9e55731ab349221fe7ee1e5b2d --epochs 4
check mnist-99 8 b7cd3339581a2790a664719bdf89c6666a4b0367e6bf206dc5e0eb5d5d18cac1 --epochs 2.5 --warmup 3

# Every recipe there is has its digest here, and every setting that its file has is in the run's record.
for file in "$SRCDIR"/data/recipes/*.yaml; do
  recipe=$(basename "$file" .yaml)
  grep -q "^check $recipe " "$0"
  result $? "$recipe has a digest" "add it to $0"
  train --recipe "$recipe" --out "$folder/$recipe" --warmup 0 --schedule const --max-steps 1
  missing=
  for option in $(sed -n 's/^\([a-z-]*\): .*/\1/p' "$file"); do
    grep -q "\"$option\": \"" "$folder/$recipe/run.json" || missing="$missing $option"
  done
  grep -q "\"recipe\": \"$recipe\"" "$folder/$recipe/run.json" && grep -q "\"model\": \"$recipe\"" "$folder/$recipe/run.json" &&
    [ -z "$missing" ]
  result $? "$recipe: its settings are in run.json" "missing:$missing $(cat "$folder/err")"
  train --recipe "$recipe" --out "$folder/$recipe-lr" --lr 0.5 --warmup 0 --schedule const --max-steps 1
  grep -q '"lr": "0.5"' "$folder/$recipe-lr/run.json"
  result $? "$recipe: an option that is given wins" "$(cat "$folder/err")"
done
echo "1..$count"
