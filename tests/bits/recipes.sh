#!/bin/sh
# TAP: the settings of recipes, and a digest for each: the same over threads, instruction sets and a stop within the
# run. The data are few, so options take the place of a recipe's epochs and steps; all else is the recipe's.
. "$SRCDIR/tests/tap.sh"

# train RECIPE OPTIONS...: recipes for CIFAR-10 take colours, that for Shakespeare a text.
train() {
  case $1 in cifar-*) data=$folder/colours ;; shakespeare) data=$folder/text.txt ;; *) data=$folder/digits ;; esac
  rm -f "$folder/json" # so that a failed run leaves none to be read
  "$HEDDLE" train --data "$data" --json --recipe "$@" >"$folder/json" 2>"$folder/err"
}

# check RECIPE STEPS DIGEST OPTIONS...: with $isas and $layouts, stopped ones after all steps but one, or three.
check() {
  recipe=$1 steps=$2 wanted=$3
  shift 3
  stop=$((steps > 3 ? 3 : steps - 1))
  for isa in $isas; do
    HEDDLE_ISA=$isa
    export HEDDLE_ISA
    for layout in $layouts; do
      threads=${layout%%,*} how=${layout##*,} accumulate=${layout#*,}
      accumulate=${accumulate%,*} title="$recipe, $isa, $threads threads, accumulate $accumulate, $how"
      rm -rf "$folder/run"
      set -- "$@" --threads "$threads" --accumulate "$accumulate"
      if [ $how = whole ]; then train "$recipe" --out "$folder/run" "$@"
      else
        train "$recipe" --out "$folder/run" --max-steps $stop "$@" &&
          train "$recipe" --resume "$folder/run" --max-steps "$steps" "$@"
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

mkdir "$folder/digits"
"$BUILDDIR/tests/bits/make_idx" "$folder/digits" 150 50 && "$BUILDDIR/tests/bits/make_data" cifar "$folder/colours" 40 \
  10 ||
  { echo "Bail out! no data"; exit 1; }
seq -s ' ' 1 900 >"$folder/text.txt"

# The constants. A change of one changes every user's results: the commit must give the reason.
isas="scalar avx2 avx512 neon" layouts="1,1,whole 2,1,stopped 3,4,whole 8,2,stopped"
[ "$depth" -ge 2 ] || layouts="3,4,stopped"
check fastmnist 4 b59daee271b825100c3e2efba9e9d719c9982f9e55731ab349221fe7ee1e5b2d --epochs 4
check mnist-99 8 b7cd3339581a2790a664719bdf89c6666a4b0367e6bf206dc5e0eb5d5d18cac1 --epochs 2.5 --warmup 3
# Large networks: scalar kernels would take minutes.
isas="avx2 avx512 neon" layouts="3,2,stopped"
check cifar-94 2 ed2fd8035858e0adb2ca3b402ed0927a6e1752800ae0b8cb13122fea9a51e846 --epochs 2
[ "$depth" -lt 2 ] || layouts="1,1,whole 3,2,stopped"
check cifar-fast 2 cb2856ef820a17e55c4fe45699d6847fd73befe626c6a664699a97e8a6cdeea4 --epochs 2
check cifar-resnet 2 f2fdef13e81491d7af605ce56548d321b0ffb370bceeec22ba6b48c23e12dbd1 --epochs 2 --warmup 1
check shakespeare 8 10fdca3d689979b32509d7327ee54f4cec49021e3f106ec2e3c07bf60e89869c --epochs 2 --warmup 1

# Every recipe there is has its digest here, and every setting that its file has is in the run's record.
for file in "$SRCDIR"/data/recipes/*.yaml; do
  recipe=$(basename "$file" .yaml)
  grep -q "^check $recipe " "$0"
  result $? "$recipe has a digest" "add it to $0"
  case $depth$recipe in 1cifar-*) continue ;; esac # large networks
  train "$recipe" --out "$folder/$recipe" --warmup 0 --schedule const --max-steps 1
  missing=
  for option in $(sed -n 's/^\([a-z-]*\):.*/\1/p' "$file"); do
    [ "$option" != end-factor ] || continue # of its schedule, not of the one that is given
    grep -q "\"$option\": \"" "$folder/$recipe/run.json" || missing="$missing $option"
  done
  grep -q "\"recipe\": \"$recipe\"" "$folder/$recipe/run.json" &&
    model=$(sed -n 's/^model: *//p' "$file") &&
    grep -q "\"model\": \"${model:-$recipe}\"" "$folder/$recipe/run.json" &&
    [ -z "$missing" ]
  result $? "$recipe: its settings are in run.json" "missing:$missing $(cat "$folder/err")"
  train "$recipe" --out "$folder/$recipe-lr" --lr 0.5 --warmup 0 --schedule const --max-steps 1
  grep -q '"lr": "0.5"' "$folder/$recipe-lr/run.json"
  result $? "$recipe: an option that is given wins" "$(cat "$folder/err")"
done
echo "1..$count"
