#!/bin/sh
# TAP: a run beside a hostile user of the same machine: who holds the names of ranks' rendezvous and by which CPUs are
# taken, and tries to read what a run writes and has open. Needs the rights of root to become that user, and skips
# without.
. "$SRCDIR/tests/tap.sh"
stranger=$BUILDDIR/tests/cli/stranger
tiny="--model simplenet --max-steps 12 --threads 1 --save-every 4"
unset RANK WORLD_SIZE MASTER_PORT MASTER_ADDR
cd "$folder" || exit 1
trap 'end_stranger; rm -rf "$folder"' EXIT

squatter=
end_stranger() {
  [ -z "$squatter" ] || { kill -KILL "$squatter"; wait "$squatter"; } 2>/dev/null
  squatter=
}

# start_stranger WHAT: in the background; returns when it holds all names.
start_stranger() {
  rm -f says && mkfifo says
  "$stranger" "$1" >says &
  squatter=$!
  exec 8<says
  heard=$(dd bs=1 count=1 <&8 2>/dev/null)
}

digest() { sed -n 's/^weights_sha256  *//p' "$1"; }

"$stranger" run true
if [ $? -eq 77 ]; then
  echo "1..0 # SKIP a second user needs the rights of root"
  exit 0
fi
chmod 755 "$folder"
if ! "$stranger" run sh -c 'test -x "$1" && test -x "$2"' sh "$HEDDLE" "$folder"; then
  echo "1..0 # SKIP a second user cannot come to $folder or to $HEDDLE"
  exit 0
fi

# shellcheck disable=SC2086
"$HEDDLE" train $tiny --out alone >alone.txt 2>&1
result $? "a run alone" "$(cat alone.txt)"

start_stranger cpus
"$HEDDLE" train $tiny --procs 2 --out cpus >cpus.txt 2>&1
[ "$heard" = r ] && [ "$(digest cpus.txt)" = "$(digest alone.txt)" ]
result $? "where another user holds the names of CPUs a run has the same digest" "$(cat cpus.txt)"
end_stranger

RANK=0 WORLD_SIZE=2 MASTER_PORT=$$
export RANK WORLD_SIZE MASTER_PORT
start_stranger ranks
"$HEDDLE" train $tiny --stall-timeout 60 --out held >held0.txt 2>held0.err &
first=$!
RANK=1 "$HEDDLE" train $tiny --stall-timeout 60 --out held >held1.txt 2>held1.err
second=$?
wait "$first"
first=$?
# (A rank that connected waits to be accepted when it has ended.)
said=$(timeout 60 dd bs=2 count=1 <&8 2>/dev/null)
end_stranger
said=$said$(cat <&8)
exec 8<&-
unset RANK WORLD_SIZE MASTER_PORT
[ "$first" -ne 0 ] && [ "$second" -ne 0 ] && grep -q 'held by another user (uid 65533)' held0.err &&
  grep -q 'held by another user (uid 65533)' held1.err && [ "$(cat held0.err held1.err | wc -l)" -eq 2 ]
result $? "where another user holds the names of ranks both report it, in one line" "$(cat held0.err held1.err)"
case $said in
*h*) result fail "and send nothing to that user" "$said" ;;
*c*) result pass "and send nothing to that user" ;;
*) result fail "no rank connected to that user" "$said" ;;
esac

# What is written has the rights that the umask leaves: no more, and no less.
(umask 077 && "$HEDDLE" train $tiny --procs 2 --out private) >private.txt 2>&1
wrong=$(find private -perm /077 ! -type l)
[ "$(digest private.txt)" = "$(digest alone.txt)" ] && [ -z "$wrong" ]
result $? "umask 077: all of a run is its user's alone" "$wrong"
! "$stranger" run sh -c 'cat private/* private/*/*' >seen.txt 2>/dev/null && [ ! -s seen.txt ]
result $? "and another user reads none of it" "$(head -c 200 seen.txt)"
(umask 022 && "$HEDDLE" train $tiny --out public) >public.txt 2>&1
wrong=$(find public ! -type l -perm /022; find public ! -perm -004)
[ -z "$wrong" ] && "$stranger" run cat public/last/model.safetensors >seen.txt
result $? "umask 022: another user reads it, and writes nothing" "$wrong"

# The other user inspects a run under way.
mkfifo pipe
"$HEDDLE" train --model simplenet --epochs 1000 --log-every 20 --threads 1 --procs 2 --out busy >pipe 2>busy.err &
job=$!
exec 9<pipe
while read -r line <&9; do
  case $line in
  "rank "*) pids="${pids-} $(echo "$line" | sed 's/.*pid \([0-9]*\).*/\1/')" ;;
  *'step 40:'*) break ;;
  esac
done
opened=
for pid in $pids $job; do
  for file in "/proc/$pid/fd" "/proc/$pid/mem" "/proc/$pid/environ"; do
    "$stranger" run sh -c "ls '$file'/. || head -c 1 '$file' | grep -q ." >/dev/null 2>&1 && opened="$opened $file"
  done
done
[ -n "$pids" ] && [ -z "$opened" ]
result $? "another user opens nothing of the processes of a run" "$opened"
"$stranger" run "$HEDDLE" top --once --json >top.txt 2>top.err
code=$?
[ "$code" -eq 0 ] && ! grep -q '"model": "simplenet"' top.txt
result $? "and does not see it in heddle top" "$(cat top.txt top.err)"
"$stranger" run kill -KILL "$job" 2>/dev/null
[ $? -ne 0 ]
result $? "nor ends it"
kill -TERM "$job"
cat <&9 >/dev/null
wait "$job"
result "$([ $? -eq 143 ] && echo pass || echo fail)" "which its user can end" "$(cat busy.err)"
exec 9<&-
echo "1..$count"
