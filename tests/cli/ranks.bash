# Common to the tests of runs with several ranks.

ENDLESS="$ENDLESS --threads 1"

# start_ranks N ARGS...: an endless run of N ranks in the folder r, past its step 40; their pids are in PID[0], PID[1],
# ...
start_ranks() {
  local ranks=$1 i
  shift
  touch before # what is older in /dev/shm was left by other processes, which may have had the same numbers
  start $ENDLESS --procs "$ranks" --out r "$@"
  PID=()
  for ((i = 0; i < ranks; i++)); do
    await_line "^rank $i pid [0-9]+ cpus "
    line=${line#rank * pid }
    PID+=("${line%% *}")
  done
  await_line 'step 40:'
}

# Two ranks of an endless run that have no parent, past its step 40: the pids are $CHILD and $other.
start_by_hand() {
  rm -f pipe
  mkfifo pipe
  RANK=0 WORLD_SIZE=2 MASTER_PORT=$$ "$HEDDLE" train $ENDLESS --out r >pipe 2>err 3>&- &
  CHILD=$!
  exec 9<pipe
  RANK=1 WORLD_SIZE=2 MASTER_PORT=$$ "$HEDDLE" train $ENDLESS --out r 2>err1 3>&- &
  other=$!
  await_line 'step 40:'
}

# All of PID have ended, and have left no files.
no_rank_left() {
  local pid left
  for pid in "${PID[@]}"; do
    [ ! -e "/proc/$pid" ] || { echo "expected pid $pid to be gone: $(cat "/proc/$pid/stat")"; return 1; }
    # Other processes' files vanish meanwhile, which find reports by its status.
    left=$(find /dev/shm -maxdepth 1 -name "*_${pid}_*" -user "$(id -u)" -newer before 2>/dev/null || true)
    [ -z "$left" ] || { echo "expected nothing of pid $pid in /dev/shm, found $left"; return 1; }
  done
  return 0
}

# await_stopped PID...: all their threads have stopped, which is some time after SIGSTOP was sent.
await_stopped() {
  local pid
  for pid; do
    while grep -hqv '^[0-9]* (.*) T ' "/proc/$pid"/task/*/stat; do sleep 0.02; done
  done
}

# Waits until no supervisor holds the run in the folder r.
await_supervisor() {
  # the event is its end
  while grep -qsxz "[k]eeps the last step of $(pwd -P)/r" /proc/[0-9]*/cmdline; do sleep 0.05; done
}

# told TEXT: the lines of survivors and of the parent contain TEXT.
told() {
  grep -q "^heddle: $1" err || { echo "expected a line 'heddle: $1', found: $(cat err)"; return 1; }
}

# The run has its last whole step, and resumes from there to the digest of an undisturbed run. The count of the lost
# rank may be MOST_BEHIND steps less.
MOST_BEHIND=1
nothing_lost() {
  local last counted
  last=$(readlink r/last)
  grep -q "^heddle: saved ${last/-/ } in .*/r; continue with: heddle train --resume " err
  # All may be lost between the barrier that completes a step and their count of it.
  counted=$(seq -s '|' $((${last#step-} - MOST_BEHIND)) "${last#step-}")
  grep -Eq "after step ($counted)\$" err
  last=$((${last#step-} + 25))
  "$HEDDLE" train --resume r --procs 3 --max-steps $last >out
  "$HEDDLE" train $ENDLESS --max-steps $last --out undisturbed >wanted
  [ "$(digest_of out)" = "$(digest_of wanted)" ]
  nothing_half_written r
}

# make_either CONDITION: the program ./either is heddle of this $version, and of another one where the condition holds.
make_either() {
  local library="$BUILDDIR/.libs/libheddle.so.0"
  [ -f "$library" ] || skip "heddle was configured without shared libraries"
  version=$("$HEDDLE" --version | head -n 1)
  version=${version##* }
  mkdir other
  LC_ALL=C sed "s/${version//./\\.}/$(tr 0-9 9 <<<"$version")/g" "$library" >other/libheddle.so.0
  cat >either <<END
#!/bin/sh
LD_LIBRARY_PATH=$BUILDDIR/.libs
if $1; then LD_LIBRARY_PATH=$PWD/other:\$LD_LIBRARY_PATH; fi
export LD_LIBRARY_PATH
exec "$BUILDDIR/.libs/heddle" "\$@"
END
  chmod +x either
}
