#!/bin/sh
# TAP: a convolutional network trains on a folder of JPEG pictures and on an .npz file with random crops and flips, each
# from the one command that docs/data.md shows, and the weights are the same whatever the layout: threads x instruction
# set x loader workers x where decoded pictures are kept, and whatever instructions libjpeg-turbo decodes with.
. "$SRCDIR/tests/tap.sh"
export HEDDLE_CACHE="$folder/cache"

# The constants. A change of one changes every user's results: the commit must give the reason.
jpegs_digest=89e1942cd88143d2518eab58fad923f93e139896430119bd4a781127598feac7
npz_digest=8039d87769b571c3c495e2b6d80829c549dda66f0493b6faf815734bb3d35810

# train DATA OPTIONS...: ten steps; workers that ran and the digest.
train() {
  data=$1
  shift
  rm -rf "$folder/run"
  "$HEDDLE" train --model "$SRCDIR/examples/pictures.yaml" --data "$data" \
    --transforms '[{random_crop: {size: 32, padding: 4}}, horizontal_flip, to_float, normalise]' --batch 32 \
    --epochs 2 --seed 7 --out "$folder/run" --json "$@" >"$folder/json" 2>"$folder/err" || {
      cat "$folder/err"
      return 1
    }
  echo "$(value workers "$folder/json") $(value weights_sha256 "$folder/json")"
}

same() { # NAME WANTED DATA OPTIONS...
  name=$1 wanted=$2
  shift 2
  found=$(train "$@")
  [ "$found" = "$wanted" ]
  result $? "$name" "expected $wanted, found $found"
}

# make KIND NAME: whether it could be.
make() {
  "$BUILDDIR/tests/bits/make_data" "$1" "$folder/$2" 140 50
  case $? in
  0) return 0 ;;
  77) result skip "$1: built without the library for it" ;;
  *) result 1 "$1 are written" ;;
  esac
  return 1
}

jpegs=$(make jpegs jpegs) && jpegs=yes || { echo "$jpegs"; count=$((count + 1)); }
npz=$(make planes-npz colours.npz) && npz=yes || { echo "$npz"; count=$((count + 1)); }

turn=0
isas="avx2 avx512 neon"
[ "$depth" -lt 2 ] || isas="$isas scalar" # seconds a run: one layout
for isa in $isas; do
  export HEDDLE_ISA=$isa
  if ! "$HEDDLE" train --model simplenet --max-steps 1 --out "$folder/probe-$isa" >/dev/null 2>"$folder/err"; then
    if grep -q HEDDLE_ISA "$folder/err"; then result skip "$isa: $(cat "$folder/err")"
    else result fail "$isa" "$(cat "$folder/err")"; fi
    continue
  fi
  several_threads="1 3" several_workers="0 1 8"
  case $isa in scalar) several_threads=3 several_workers=8 ;; esac
  for threads in $several_threads; do
    for workers in $several_workers; do
      turn=$((turn + 1))
      case $((turn % 3)) in 0) cache=ram ;; 1) cache=none ;; *) cache=disk ;; esac
      how="$isa, $threads threads, $workers workers"
      [ "$jpegs" != yes ] || same "JPEG pictures, $how, --cache $cache" "$workers $jpegs_digest" "$folder/jpegs" \
        --threads $threads --workers $workers --cache $cache
      [ "$npz" != yes ] || [ $workers = 1 ] || same "an .npz file, $how" "$workers $npz_digest" "$folder/colours.npz" \
        --threads $threads --workers $workers
    done
  done
done
unset HEDDLE_ISA

# Switches of libjpeg-turbo.
for switch in JSIMD_FORCENONE JSIMD_FORCESSE2 JSIMD_FORCEAVX2; do
  [ "$jpegs" = yes ] || continue
  export $switch=1
  same "JPEG pictures, $switch" "0 $jpegs_digest" "$folder/jpegs" --cache none
  unset $switch
done
echo "1..$count"
