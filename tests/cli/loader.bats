# Loader workers of the command: what a run leaves that is killed, how one ends that cannot read on, and how much memory
# it takes.

load cli

ENDLESS="--epochs 100000 --log-every 1 --workers 2"

setup_file() {
  export PICTURES="--model $SRCDIR/examples/pictures.yaml --batch 32 --seed 7"
}

make_pictures() {
  "$BUILDDIR/tests/bits/make_data" pictures pictures 140 50
}

# Files in folders for temporary ones that a process has, by name.
temporary_files_of() {
  { cat "/proc/$1/maps"; ls -l "/proc/$1/fd"; } | grep -o ' /\(tmp\|dev/shm\|var/tmp\)/.*' |
    grep -v __KMP_REGISTERED_LIB_ | sort -u || true
}

# Those of a run alone: not what it has from the shell that started it, nor of the folders of the test and of the build.
own_temporary_files() {
  comm -23 <(temporary_files_of "$CHILD") <(temporary_files_of $$) | grep -v "^ $FOLDER/\|^ $BUILDDIR/" || true
}

# What process PID left in /dev/shm, newer than the test, in whose name it is a number by itself: other processes come
# and go. LLVM's OpenMP runtime registers itself there, and removes that only at its regular end.
left_by() {
  find /dev/shm -newer tmp ! -name '__KMP_REGISTERED_LIB_*' 2>/dev/null | grep -E "[^0-9]$1([^0-9]|\$)" || true
}

# none WHAT LIST: the list is empty.
none() {
  [ -z "$2" ] || { echo "expected no $1, found: $2"; return 1; }
}

# Stops the run, so that what it has open stays as it is while it is looked at.
hold() {
  kill -STOP "$CHILD"
  while grep -L '^State:.*stopped' /proc/"$CHILD"/task/*/status | grep -q .; do sleep 0.01; done
}

@test "SIGKILL of a run with workers leaves nothing in /dev/shm and in temporary folders" {
  mkdir tmp
  export TMPDIR=$PWD/tmp
  make_pictures
  for cache in none ram disk; do
    start $PICTURES $ENDLESS --data pictures --cache $cache --save-every 1 --out run-$cache
    await_line 'step 3:'
    [ "$(find "/proc/$CHILD/task" -mindepth 1 -maxdepth 1 | wc -l)" -gt 2 ] # the workers are there
    hold
    none "temporary file" "$(own_temporary_files)"
    pid=$CHILD
    kill -KILL "$CHILD"
    finish
    [ "$code" -eq 137 ]
    none "temporary file" "$(ls -A tmp)"
    none "shared memory" "$(left_by "$pid")"
    "$HEDDLE" digest run-$cache >/dev/null
  done
}

@test "a picture damaged in the middle of an epoch ends the run, which names it and is resumed once it is fixed" {
  make_pictures
  start $PICTURES $ENDLESS --data pictures --cache none --out r
  await_line 'step 7:'
  picture=pictures/train/c3/013.png
  cp $picture kept
  head -c 200 kept >torn
  mv torn $picture # atomic: a reader has the one or the other
  finish
  [ "$code" -eq 1 ]
  [ "$(wc -l <err)" -eq 1 ]
  message=$(cat err)
  says "heddle: step " "$picture: expected" "fix it, and continue with --resume r"
  nothing_half_written
  step=$(readlink r/last)
  step=${step#step-}
  [ "$step" -ge 7 ]
  fails 1 train --resume r --max-steps $((step + 7))
  says "$picture"
  mv kept $picture
  "$HEDDLE" train --resume r --max-steps $((step + 7)) >out
  "$HEDDLE" train $PICTURES --data pictures --epochs 100000 --max-steps $((step + 7)) --out undisturbed >wanted
  [ "$(digest_of out)" = "$(digest_of wanted)" ]
}

# peak OPTIONS...: the most memory that a run took, in KiB.
peak() {
  "$HEDDLE" train $PICTURES --data pictures --cache none --threads 2 --json "$@" >out
  echo $(($(json_get peak_rss_bytes <out) / 1024))
}

@test "memory is flat over 50 epochs, and more workers take a ring of batches and no more" {
  make_pictures
  few=$(peak --epochs 2 --workers 2)
  many=$(peak --epochs 50 --workers 2)
  crowd=$(peak --epochs 50 --workers 8) # the ring holds an epoch at most, which it did with two
  echo "2 epochs $few KiB, 50 epochs $many KiB, with 8 workers $crowd KiB"
  [ "$many" -le $((few + 2048)) ]
  [ "$crowd" -le $((many + 8192)) ]
}
