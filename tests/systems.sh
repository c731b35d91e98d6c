#!/bin/sh
# TAP: systems that refuse calls, hide processes or number them anew: heddle runs, with the same digest, or reports in
# one line what is missing.
. "$SRCDIR/tests/tap.sh"
without=$BUILDDIR/tests/cli/without
stranger=$BUILDDIR/tests/cli/stranger
tiny="--model simplenet --data random:1x28x28 --max-steps 12 --threads 1"
cd "$folder" || exit 1

digest() { sed -n 's/^weights_sha256  *//p' "$1"; }

# shellcheck disable=SC2086
"$HEDDLE" train $tiny --out alone >alone.txt 2>&1
result $? "a run on this system" "$(cat alone.txt)"
wanted=$(digest alone.txt)

# runs NAME COMMAND...: has the digest.
runs() {
  name=$1
  shift
  "$@" >out.txt 2>err.txt
  code=$?
  if [ "$code" -eq 77 ]; then
    result skip "$name: the system takes no filter, or has no second user"
    return
  fi
  [ "$code" -eq 0 ] && [ "$(digest out.txt)" = "$wanted" ]
  result $? "$name" "exit code $code: $(cat out.txt err.txt)"
}

# says TEXT NAME COMMAND...: fails, with one line that holds the text.
says() {
  text=$1 name=$2
  shift 2
  "$@" >out.txt 2>err.txt
  code=$?
  if [ "$code" -eq 77 ]; then
    result skip "$name: the system takes no filter"
    return
  fi
  [ "$code" -ne 0 ] && [ "$(wc -l <err.txt)" -eq 1 ] && grep -q "$text" err.txt
  result $? "$name" "exit code $code: $(cat err.txt)"
}

for ranks in 1 2; do
  # shellcheck disable=SC2086
  {
    runs "no descriptors of processes, $ranks ranks" \
      "$without" pidfd_open pidfd_send_signal -- "$HEDDLE" train $tiny --procs $ranks --out "a$ranks"
    runs "no io_uring, no exchange of names, $ranks ranks" \
      "$without" io_uring_setup renameat2 -- "$HEDDLE" train $tiny --procs $ranks --out "b$ranks"
    runs "no CPUs to bind to, no memory to place, $ranks ranks" \
      "$without" sched_setaffinity mbind madvise close_range -- "$HEDDLE" train $tiny --procs $ranks --out "c$ranks"
  }
done
# shellcheck disable=SC2086
{
  runs "no memory files, one process" "$without" memfd_create -- "$HEDDLE" train $tiny --out d1
  says 'cannot create a memory file for the ranks to share: ' "no memory files: ranks report it" \
    "$without" memfd_create -- "$HEDDLE" train $tiny --procs 2 --out d2
}

# Little room: few descriptors, a home that cannot be written, memory file systems that are small or not there.
with_descriptors() {
  (ulimit -n 64 && exec "$@")
}
# shellcheck disable=SC2086
for ranks in 1 2; do
  runs "64 descriptors, $ranks ranks" with_descriptors "$HEDDLE" train $tiny --procs $ranks --out "g$ranks"
  runs "a home that cannot be written, $ranks ranks" env HOME=/proc "$HEDDLE" train $tiny --procs $ranks --out "h$ranks"
done
if unshare -m sh -c 'mount -t tmpfs -o size=64k none /dev/shm' 2>/dev/null; then
  # shellcheck disable=SC2016,SC2086
  for ranks in 1 2; do
    runs "/dev/shm of 64 KiB, $ranks ranks" unshare -m sh -c 'mount -t tmpfs -o size=64k none /dev/shm && exec "$@"' \
      sh \
      "$HEDDLE" train $tiny --procs $ranks --out "i$ranks"
    runs "/dev/shm that cannot be used, $ranks ranks" unshare -m sh -c \
      'mount -t tmpfs -o mode=0,ro none /dev/shm && exec "$@"' sh "$HEDDLE" train $tiny --procs $ranks --out "j$ranks"
  done
else
  result skip "another /dev/shm needs the rights of root"
fi

# The clock of the day jumps.
odd_clock=$BUILDDIR/tests/cli/.libs/odd_clock.so
case $(nm -D "$BUILDDIR/.libs/heddle" 2>/dev/null) in
*__asan*) result skip "a clock that jumps: a sanitizer has to be the first library" ;;
*)
  for ranks in 1 2; do
    # shellcheck disable=SC2016,SC2086
    runs "a clock that jumps by an hour, $ranks ranks" env LD_PRELOAD="$odd_clock" \
      sh -c 'test "$(date +%H)" != "$(env -u LD_PRELOAD date +%H)" && exec "$@"' sh "$HEDDLE" train $tiny \
      --procs $ranks --out "k$ranks"
  done
  ;;
esac

# Processes of other users are hidden.
chmod 777 "$folder"
if unshare -m sh -c 'mount -t proc -o hidepid=2 proc /proc && [ -e /proc/self/stat ]' 2>/dev/null &&
  "$stranger" run sh -c 'test -x "$1" && test -w "$2"' sh "$HEDDLE" "$folder" 2>/dev/null; then
  for ranks in 1 2; do
    # shellcheck disable=SC2016
    runs "/proc hides other users' processes, $ranks ranks" unshare -m sh -c \
      'mount -t proc -o hidepid=2 proc /proc && exec "$@"' sh "$stranger" run "$HEDDLE" train $tiny --procs $ranks \
      --out "e$ranks"
  done
else
  result skip "/proc that hides processes needs the rights of root, and a second user who can come to $folder"
  result skip "and so it does for ranks"
fi

# Two jobs whose processes and threads have the same numbers, at once.
if unshare -pf --mount-proc true 2>/dev/null; then
  # shellcheck disable=SC2086
  {
    unshare -pf --mount-proc "$HEDDLE" train $tiny --procs 2 --out f1 >f1.txt 2>&1 &
    other=$!
    unshare -pf --mount-proc "$HEDDLE" train $tiny --procs 2 --out f2 >f2.txt 2>&1
    second=$?
  }
  wait "$other"
  first=$?
  [ "$first" -eq 0 ] && [ "$second" -eq 0 ] && [ "$(digest f1.txt)" = "$wanted" ] && [ "$(digest f2.txt)" = "$wanted" ]
  result $? "two spaces of process numbers at once" "$(cat f1.txt f2.txt)"
else
  result skip "a second space of process numbers needs the rights of root"
fi
echo "1..$count"
