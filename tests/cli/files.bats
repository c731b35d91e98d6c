# Files of others beside those of a run, and systems on which files are not what they usually are.

load cli
WHERE=/tmp # on the disk

# What others keep in a run's folder: folders under names of checkpoints, files and links under names like those of
# unfinished files.
plant() { # FOLDER
  mkdir -p elsewhere
  echo precious >elsewhere/notes
  echo precious >"$1/.notes.tmp-1"
  echo precious >"$1/.notes.tmp-0123456789abcdef"
  echo precious >"$1/.run.json.tmp-notes"
  mkdir "$1/.run.json.tmp-0123456789abcdef"
  echo precious >"$1/.run.json.tmp-0123456789abcdef/notes"
  ln -s "$PWD/elsewhere" "$1/.step-1.tmp-0123456789abcdef"
  ln -s "$PWD/elsewhere" "$1/.elsewhere.tmp-2"
}

# state FOLDER...: every name, with its kind, a file's content and a link's target.
state() {
  find "$@" -printf '%p %y %l\n' -type f -exec cksum {} + | sort
}

@test "folders that are no checkpoints are refused before the first step where one would be written, and stay" {
  mkdir -p x/step-{1,2,3}
  echo precious >x/step-1/notes
  plant x
  before=$(state x elsewhere)
  fails 1 train $TINY --out x --max-steps 9 --save-every 1 --keep 2
  says "expected a checkpoint or nothing in its place, found a folder of another program; move that away"
  [ "$(state x elsewhere)" = "$before" ]
  rm -r x/step-*
  ln -s "$PWD/elsewhere" x/step-5
  fails 1 train $TINY --out x --max-steps 9 --save-every 1 --keep 2
  says "x/step-5: expected a checkpoint or nothing in its place, found a link"
  [ "$(cat elsewhere/notes)" = precious ]
}

@test "files of another program under names of a run's are refused before the first step, and stay" {
  for name in run.json metrics.jsonl losses.bin history.jsonl divisors.bin wrong.png report.html; do
    mkdir x
    echo precious >x/$name
    fails 1 train $TINY --out x
    says "x/$name: expected a file of a run or nothing in its place, found a file of another program; move that away"
    [ "$(ls -A x)" = $name ]
    [ "$(cat x/$name)" = precious ]
    rm -r x
  done
}

@test "a pipe in the place of a run's file is refused at once" {
  for name in run.json metrics.jsonl history.jsonl; do
    mkdir x
    mkfifo x/$name
    fails 1 train $TINY --out x
    says "x/$name: expected a " "found a pipe; "
    [ -p x/$name ]
    rm -r x
  done
  train --out x
  for command in "certify losses.bin" "runs history.jsonl"; do
    name=${command#* }
    cp -a x y
    rm y/$name
    mkfifo y/$name
    fails 1 ${command% *} y
    says "y/$name: expected a regular file, found a pipe; check the path"
    rm -r y
  done
  mkdir s
  mkfifo s/sweep.json
  fails 1 sweep lr=0.1,0.2 --model simplenet --data "$FEW" --out s
  says "s/sweep.json: expected a regular file, found a pipe"
}

@test "a run without its last checkpoint is a run, and goes on from another one" {
  train --out r --max-steps 30 --save-every 10 --keep 9
  rm -r r/step-30
  before=$(state r)
  fails 2 train $TINY --seed 2 --out r
  says "expected a folder without a run, found one; use --resume r/step-20 to continue"
  rm r/last
  fails 2 train $TINY --seed 2 --out r
  says "expected a folder without a run, found one"
  ln -s step-30 r/last
  [ "$(state r)" = "$before" ]
  "$HEDDLE" train --resume r/step-20 --max-steps 30 >out
  [ "$(digest_of out) $(readlink r/last)" = "$DIGEST step-30" ]
}

@test "a resume into a new folder that fails leaves nothing there, and may be repeated" {
  train --out r --max-steps 10
  code=0
  "$HEDDLE" train --resume r --out s --max-steps 20 --tensorboard /dev/null/x 2>err || code=$?
  [ "$code" -ne 0 ]
  [ -z "$(ls -A s)" ]
  "$HEDDLE" train --resume r --out s --max-steps 20 >out
}

@test "--keep neither counts nor removes what is no checkpoint, and what is like an unfinished file stays" {
  train --out x --max-steps 10 --save-every 1 --keep 2
  mkdir -p x/step-{1,2,3,4}
  echo precious >x/step-1/notes
  cp x/last/* x/step-3
  echo precious >x/step-3/notes # beside all that a checkpoint holds
  cp x/last/* x/step-4
  echo '{}' >x/step-4/run.json # no record of a run
  ln -s "$PWD/elsewhere" x/step-5
  plant x
  before=$(state x/step-[1-5] x/.[!.]* elsewhere)
  "$HEDDLE" train --resume x --max-steps 15 --save-every 1 --keep 2 >out
  [ "$(state x/step-[1-5] x/.[!.]* elsewhere)" = "$before" ]
  [ "$(cd x && echo step-*)" = "step-1 step-14 step-15 step-2 step-3 step-4 step-5" ]
}

@test "a folder that takes a checkpoint's place while the run goes on is an error of the save, and stays" {
  start $ENDLESS --save-every 1 --keep 1000000 --out x --log-every 1
  await_line 'step 3:'
  until mkdir x/step-$((n += 50)) 2>/dev/null && echo precious >"x/step-$n/notes"; do :; done
  finish
  [ "$code" -eq 1 ]
  grep -q "x/step-$n: expected a checkpoint or nothing in its place, found a folder of another program" err
  [ "$(ls -A "x/step-$n")" = notes ]
  nothing_half_written x
}

# bad RULES ARGS...: heddle ARGS on a file system that fails by RULES (see bad_disk.c); the exit code is in $code.
# bad_fails CODE RULES ARGS...: the same, as fails.
BAD_DISK_SO=$BUILDDIR/tests/cli/.libs/bad_disk.so
need_bad_disk() {
  case $(nm -D "$BUILDDIR/.libs/heddle" 2>/dev/null) in
  *__asan*) skip "a sanitizer wants to be the first library" ;;
  esac
}
bad() {
  local rules=$1
  shift
  rm -f seen
  code=0
  BAD_DISK=$rules BAD_DISK_SEEN=$PWD/seen LD_PRELOAD=$BAD_DISK_SO "$HEDDLE" "$@" >out 2>err || code=$?
}

@test "killed between the two renames of a save without an exchange of names: the next start puts the old one back" {
  need_bad_disk
  train --out x --max-steps 4 --save-every 1 --keep 9
  wanted=$DIGEST
  cp -a x whole
  for step in 3 4; do
    for from in x x/last x/step-$step; do
      rm -rf x
      cp -a whole x
      bad "renameat2:0:EINVAL,rename:1:KILL:>x/step-$step" train --resume x/step-2 --save-every 1 --keep 9
      [ "$code" -eq 137 ]
      [ -e seen ]
      [ ! -e x/step-$step ]
      "$HEDDLE" train --resume $from --keep 9 --max-steps 4 >out
      [ "$(cd x && echo step-*)" = "step-1 step-2 step-3 step-4" ]
      [ "$("$HEDDLE" digest x/step-4)" = "$wanted" ]
      nothing_half_written x
      [ -z "$(find x -name '.*.old-*')" ]
    done
  done
}

@test "names that cannot be exchanged are replaced one after the other" {
  need_bad_disk
  train --out x --max-steps 4 --save-every 1 --keep 9
  wanted=$DIGEST
  bad "renameat2:0:ENOSYS" train --resume x/step-2 --save-every 1 --keep 9
  [ "$code" -eq 0 ]
  [ -e seen ]
  [ "$("$HEDDLE" digest x)" = "$wanted" ]
  [ "$(cd x && echo step-*)" = "step-1 step-2 step-3 step-4" ]
  [ -z "$(find x -name '.*.old-*')" ]
  nothing_half_written x
}

@test "killed before a link gets its name: the one before is there" {
  need_bad_disk
  bad "rename:2:KILL:>x/last" train $TINY --save-every 20 --out x
  [ "$code" -eq 137 ]
  [ -e seen ]
  [ "$(readlink x/last)" = step-20 ]
  "$HEDDLE" train --resume x --max-steps 41 >out
  nothing_half_written x
}

@test "a folder that cannot be synced is an error of the save, on the path of the link too" {
  need_bad_disk
  for rules in "fsync:1:EIO:/x/.step-50.tmp-" "fsync:1:EIO:/x"; do
    rm -rf x
    bad "$rules" train $TINY --out x
    [ "$code" -eq 1 ]
    [ -e seen ]
    [ "$(wc -l <err)" -eq 1 ]
    grep -q '^heddle: .*cannot .*: Input/output error; the disk reported an error' err
    nothing_half_written x
  done
  mkdir y
  cp "$SRCDIR/tests/cli/files.bats" y/kept
  for number in 1 2 3 4 5 6 7 8 9; do # each sync of the run's folder itself: files, checkpoint, links
    rm -rf x
    bad "fsync:$number:EIO:/y/x" train $TINY --out y/x
    [ -e seen ] || break
    [ "$code" -eq 1 ]
    [ "$(wc -l <err)" -eq 1 ]
    rm -rf y/x
  done
  [ "$number" -gt 6 ]
  rm -rf y/x
  bad "fsync:0:EINVAL:/y/x" train $TINY --out y/x # a file system that cannot
  [ "$code" -eq 0 ]
}

@test "a file of a checkpoint that cannot be synced is an error of the save" {
  need_bad_disk
  for name in model.safetensors state.safetensors run.json; do
    rm -rf x
    bad "fsync:1:EIO:/.$name.tmp-" train $TINY --out x
    [ "$code" -eq 1 ]
    [ -e seen ]
    grep -q "$name: cannot write it to the disk: Input/output error" err
    [ ! -e x/step-50 ]
    [ ! -e x/last ]
    nothing_half_written x
  done
}

@test "a model's name leads out of no folder" {
  for name in ../../x /etc/x . .. ".hidden" "a/b" "a b" $'a\tb' "ü"; do
    printf 'model: "%s"\ninput: [1, 28, 28]\nlayers:\n' "$name" >m.yaml
    printf '  - f: {op: flatten}\n  - l: {op: linear, out: 10}\n' >>m.yaml
    mkdir -p deep/er
    cp m.yaml deep/er
    (cd deep/er && "$HEDDLE" train --model m.yaml --data "$FEW" --max-steps 1 >out)
    [ "$(cd deep/er && ls -A)" = "$(printf 'm.yaml\nout\nruns')" ]
    [ "$(ls -A deep)" = er ]
    [ "$(cd deep/er/runs && ls -A | wc -l)" -eq 1 ]
    [[ "$(cd deep/er/runs && ls -A)" =~ ^[A-Za-z0-9_-][A-Za-z0-9._-]*-1$ ]]
    rm -r deep
  done
}

@test "on a file system without locks a second run is refused too, also one on another host" {
  need_bad_disk
  without="fcntl:0:ENOLCK,flock:0:ENOSYS"
  bad "$without" train $TINY --out x
  [ "$code" -eq 0 ]
  [ -e seen ]
  [ "$(cd x && ls -A)" = "$(printf '%s\n' best history.jsonl last losses.bin metrics.jsonl report.html run.json \
    step-50 wrong.png)" ]
  export BAD_DISK=$without LD_PRELOAD=$BAD_DISK_SO
  start $ENDLESS --log-every 1 --save-every 1 --out y
  await_line 'step 3:'
  fails 1 train --resume y --max-steps 3
  says "y: expected a folder that nothing else writes to, found another heddle writing to it (process $CHILD on "\
"$(uname -n))"
  kill -KILL "$CHILD"
  finish
  [ -e y/.lock ]
  cp -a y z
  "$HEDDLE" train --resume y --max-steps 3 >out
  [ ! -e y/.lock ]
  printf 'elsewhere boot pid:[1] 1 1\n' >z/.lock
  fails 1 train --resume z --max-steps 3
  says "on elsewhere)" "if it has ended, remove z/.lock"
  rm z/.lock
  "$HEDDLE" train --resume z --max-steps 3 >out
  # a process that was killed, and that no parent waits for
  sh -c '"$0" "$@" >/dev/null 2>&1 & echo $! >killed && exec sleep 1000' "$HEDDLE" train $ENDLESS --save-every 1 \
    --out v 3>&- 9>&- &
  CHILD=$!
  until [ -e v/last ]; do sleep 0.02; done
  kill -KILL "$(cat killed)"
  until grep -q '^State:.*Z' "/proc/$(cat killed)/status"; do sleep 0.02; done
  "$HEDDLE" train --resume v --max-steps 3 >out
}

@test "a path that is a pipe or a device is written in place, a link to a file is followed, standard output goes on" {
  "$HEDDLE" data "$FEW" --sheet wanted.png >out
  mkfifo p
  cat p >got &
  CHILD=$!
  timeout "$LIMIT_S" "$HEDDLE" train $TINY --profile p >out
  [ -p p ]
  wait "$CHILD"
  [ "$(grep -c traceEvents got)" -eq 1 ]
  grep -q '"checkpoint writer"' got # once, and the whole
  timeout 60 cat p >got &
  CHILD=$!
  timeout "$LIMIT_S" "$HEDDLE" data "$FEW" --sheet p >out
  wait "$CHILD"
  CHILD=
  cmp got wanted.png
  [ -p p ]
  if mknod null c 1 3 2>/dev/null && : 2>/dev/null >null; then
    "$HEDDLE" train $TINY --profile null >out
    "$HEDDLE" data "$FEW" --sheet null >out
    fails 1 tune --model simplenet --html null --csv none/t.csv
    [ -c null ]
  fi
  mkdir elsewhere
  echo old >elsewhere/sheet.png
  ln -s elsewhere/sheet.png link.png
  "$HEDDLE" data "$FEW" --sheet link.png >out
  [ -L link.png ]
  cmp elsewhere/sheet.png wanted.png
  : >t.svg
  chmod 600 t.svg
  (umask 022 && "$HEDDLE" topo --svg t.svg >out) # permissions are those of the umask
  [ "$(stat -c %a t.svg)" = 644 ]
  ln -s none.png dangling.png
  fails 1 data "$FEW" --sheet dangling.png
  says "dangling.png: cannot write to the file that the link names: No such file"
  ln -s none.png loop.png && ln -sf loop.png none.png
  fails 1 data "$FEW" --sheet loop.png
  "$HEDDLE" data "$FEW" --sheet /dev/stdout >both
  [ -L /dev/stdout ] || [ -c /dev/stdout ]
  grep -q samples both
  grep -aq IHDR both
  "$HEDDLE" data "$FEW" --sheet both >both # the file that standard output is open on
  grep -q samples both
  grep -aq IHDR both
  nothing_half_written
}

@test "two containers whose processes have the same numbers decode into one cache at the same time" {
  timeout 20 unshare --pid --fork --mount-proc true 2>/dev/null || skip "no right to start a PID namespace"
  export HEDDLE_CACHE=$PWD/cache
  "$BUILDDIR/tests/bits/make_data" pictures pictures 140 50
  for turn in 1 2 3; do
    rm -rf cache a b
    for name in a b; do
      unshare --pid --fork --mount-proc "$HEDDLE" train --model "$SRCDIR/examples/pictures.yaml" --batch 32 \
        --data pictures --cache disk --max-steps 1 --out $name >$name.out 2>$name.err 3>&- &
    done
    wait # for both
    cat ?.err
    [ -s a.out ]
    [ "$(digest_of a.out)" = "$(digest_of b.out)" ]
    [ ! -s a.err ]
    [ ! -s b.err ]
    nothing_half_written cache
  done
}

@test "where descriptors run out nothing is half a run, and no temporary folder stays" {
  failed=0
  for limit in $(seq 7 16); do
    (ulimit -n "$limit" && exec timeout 30 "$HEDDLE" train $TINY --max-steps 4 --save-every 2 --threads 1 \
      --out "r$limit") \
      >out 2>err 3>&- 4>&- 5>&- 6>&- || failed=$((failed + 1))
    [ ! -e "r$limit/losses.bin" ] || [ -e "r$limit/run.json" ] || { echo "limit $limit"; ls -a "r$limit"; return 1; }
    [ -z "$(find "r$limit" -name '.*tmp*' 2>/dev/null)" ] || { echo "limit $limit"; ls -a "r$limit"; return 1; }
  done
  [ "$failed" -gt 0 ]
  [ "$failed" -lt 10 ]
}

# The program itself, as libtool's script never ends where it has no descriptors.
with_descriptors() {
  local program=$HEDDLE
  [ ! -x "$BUILDDIR/.libs/heddle" ] || program=$BUILDDIR/.libs/heddle
  (ulimit -n "$1" && shift && LD_LIBRARY_PATH=$BUILDDIR/.libs exec timeout 60 "$program" "$@") \
    >out 2>err 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-
}

@test "a file that cannot be opened for want of descriptors is not taken for one that is not there" {
  local few failed=0
  train --out r
  for limit in 4 5 6; do
    for command in "report r" "runs r" "runs $PWD" "certify r"; do
      few=0
      with_descriptors "$limit" $command || few=$?
      no grep -E 'found no|found none|no run' out err
      [ "$few" -eq 0 ] || grep -q 'Too many open files' err || {
        echo "limit $limit, $command: $few"
        cat err
        return 1
      }
      failed=$((failed + few))
    done
  done
  [ "$failed" -gt 0 ]
}
