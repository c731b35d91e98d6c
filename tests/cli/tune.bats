# heddle tune: the table, JSON, CSV and page of the experiment, what it remembers, and what it refuses.

load cli

tune() {
  "$HEDDLE" tune --model simplenet --data "$FEW" --seconds 0.1 "$@"
}

# The load of others is unknown, so the result is kept: other tests may run beside this one.
quiet() {
  export HEDDLE_SYSROOT=$PWD/nowhere
}

# On two packages of a core with two CPUs each: there the placements differ, and a real machine with four CPUs has them.
made_up() {
  HWLOC_SYNTHETIC="pack:2 core:1 pu:2" tune "$@"
}

# rows: the lines of a table in `out`.
rows() {
  grep -E '^ +[0-9]+  [a-z]' out
}

@test "the table has a line for every number of threads up to the CPUs there are, and names one best" {
  tune >out
  cpus=$(grep -o ', [0-9]* CPUs of' out | tr -dc 0-9)
  [ "$(rows | sed 's/^ *//; s/ .*//' | sort -u | wc -l)" -eq "$cpus" ] || [ "$cpus" -gt 8 ]
  [ "$(grep -c ' best$' out)" -eq 1 ]
}

@test "--json: the promised keys, and the digest that train gets after as many steps" {
  tune --json >out
  [ "$(json_keys <out)" = "model data isa batch cpus cpu settings best law steps load busy weights_sha256" ]
  [ "$(json_get settings.0 <out | json_keys)" = \
    "threads workers placement same turns samples_per_s low high speedup efficiency" ]
  [ "$(json_get best <out | json_keys)" = "threads workers placement samples_per_s" ]
  [ "$(json_get settings.0.threads settings.0.speedup settings.0.efficiency <out)" = "1 1.0 1.0" ] ||
    [ "$(json_get settings.0.threads settings.0.speedup settings.0.efficiency <out)" = "1 1 1" ] ||
    [ "$(json_get settings.0.threads settings.0.speedup settings.0.efficiency <out)" = "1 1.0000 1.0000" ]
  wanted=$(json_get weights_sha256 <out) steps=$(json_get steps <out)
  train --max-steps "$steps" --epochs 100000 --threads 1 --out run
  [ "$DIGEST" = "$wanted" ]
}

@test "CSV and page hold the same settings, and no number that is none" {
  tune --csv t.csv --html t.html >out
  settings=$(rows | wc -l)
  [ "$(head -n 1 t.csv)" = "threads,workers,placement,same,turns,samples_per_s,low,high,speedup,efficiency" ]
  [ "$(tail -n +2 t.csv | wc -l)" -eq "$settings" ]
  [ "$(grep -cE '^<tr( class="best")?><td>' t.html)" -eq "$settings" ]
  [ "$(grep -c '<svg ' t.html)" -eq 2 ]
  [ "$(grep -c '</svg>' t.html)" -eq 2 ]
  grep -q '^</body></html>' t.html || grep -q '</body></html>$' t.html
  no grep -E '[^a-z](nan|inf)[^a-z]' t.html t.csv
  ln -s /proc/self/fd/1 link
  tune --sweep workers --threads 1 --csv link | cat >out
  [ -L link ]
  grep -qx '1,0,.*' out
}

@test "placements: each that comes to other CPUs is measured, those that do not are named beside it" {
  made_up --csv t.csv --html t.html >out
  printf '%s\n' 1,physical,'compact spread all' 2,physical,'spread all' 2,compact, 3,physical,'spread all' 3,compact, \
    4,physical,'spread all' 4,compact, >wanted
  tail -n +2 t.csv | cut -d, -f1,3-4 | cmp - wanted
  rows >lines
  [ "$(wc -l <lines)" -eq 7 ]
  grep -Eq '^ +1  physical = compact = spread = all  ' lines
  grep -Eq '^ +3  compact  ' lines
  [ "$(grep -c 'class="name">compact<' t.html)" -eq 3 ]
  [ "$(grep -c '<title>3 threads, physical, spread, all: ' t.html)" -eq 2 ]
  for label in 1 2 3 4; do # once under each chart
    [ "$(grep -c "class=\"mid\">$label</text>" t.html)" -eq 2 ]
  done
  HWLOC_SYNTHETIC="core:4 pu:1" tune --csv t.csv >out
  [ "$(tail -n +2 t.csv | cut -d, -f1,3-4 | grep -cx '[1-4],physical,compact spread all')" -eq 4 ]
  grep -q '^placement .*physical, compact, spread, all give the same CPUs here: measured once' out
}

@test "--sweep sets what is varied; fixed options are not" {
  made_up --sweep threads --csv t.csv >out
  [ "$(tail -n +2 t.csv | cut -d, -f1,3 | xargs)" = "1,physical 2,physical 3,physical 4,physical" ]
  made_up --placement compact --csv t.csv >out
  [ "$(tail -n +2 t.csv | cut -d, -f1,3 | xargs)" = "1,compact 2,compact 3,compact 4,compact" ]
  made_up --sweep placement --threads 3 --csv t.csv >out
  [ "$(tail -n +2 t.csv | cut -d, -f1,3 | xargs)" = "1,physical 3,physical 3,compact" ]
  made_up --sweep placement,threads --csv t.csv >out
  [ "$(tail -n +2 t.csv | wc -l)" -eq 7 ]
  made_up --cpus 1,0 --csv t.csv >out
  [ "$(tail -n +2 t.csv | cut -d, -f1,3-4 | xargs)" = "1,cpus, 2,cpus," ]
}

@test "--sweep workers: 0, 1, 2 and 4 of them, by themselves or with threads" {
  made_up --sweep workers --threads 2 --csv t.csv --html t.html >out
  [ "$(tail -n +2 t.csv | cut -d, -f1,2 | xargs)" = "1,0 1,1 1,2 1,4 2,0 2,1 2,2 2,4" ]
  [ "$(head -n 3 out | tail -n 1 | xargs)" = "threads workers placement samples/s 95 % interval speed-up efficiency" ]
  [ "$(grep -c '<title>2 threads, physical, 4 workers: ' t.html)" -eq 2 ]
  [ "$(grep -c '>4 workers</text>' t.html)" -eq 2 ]
  made_up --sweep threads,workers --csv t.csv >out
  [ "$(tail -n +2 t.csv | wc -l)" -eq 16 ]
  made_up --sweep threads --workers 3 --csv t.csv >out
  [ "$(tail -n +2 t.csv | cut -d, -f2 | sort -u)" = 3 ]
  fails 2 tune --sweep workers --workers 1
}

@test "the best of each placement is remembered for runs with --placement, the best of all for others" {
  export HWLOC_SYNTHETIC="pack:2 core:1 pu:2"
  quiet
  file=.cache/heddle/threads.json
  tune --sweep placement --threads 2 >out
  tune --cpus 0 >out
  [ ! -e $file ]
  tune >out
  for asked in physical compact spread all "any placement"; do
    grep -q "$asked on 4 CPUs" $file
  done
  # the remembered setting is used: two threads on the two CPUs of a core, without an option
  awk '/^ "/ { any = /any placement/ }
    any { sub(/"physical"|"spread"|"all"/, "\"compact\""); sub(/"threads": [0-9]*/, "\"threads\": 2") }
    !any { sub(/"threads": [0-9]*/, "\"threads\": 3") } { print }' $file >changed
  cp changed $file
  train --max-steps 2 --out any
  grep -q '"threads": 2,' out
  train --max-steps 2 --placement compact --out asked
  grep -q '"threads": 3,' out
  train --max-steps 2 --placement compact --threads 1 --out said
  grep -q '"threads": 1,' out
}

@test "what is remembered of a network with frozen layers is for runs with the same" {
  quiet
  file=.cache/heddle/threads.json
  tune --freeze fc.bias >out
  sed -i 's/"threads": [0-9]*/"threads": 1/' $file
  train --epochs 1.1 --max-steps 100 --freeze fc.bias --out frozen
  grep -q 'saved by `tune`' out
  train --max-steps 2 --out all
  no grep -q 'saved by `tune`' out
}

# threads_of PROCESS: the CPUs that its two threads are bound to, looked at until both are: between epochs none is.
threads_of() {
  local try threads=
  for try in {1..2000}; do
    threads=$(cat /proc/"$1"/task/*/status | sed -n 's/^Cpus_allowed_list:[[:space:]]*\([0-9]*\)$/\1/p' | sort -un |
      xargs)
    [[ "$threads" != *\ * ]] || break
  done
  echo "$threads"
}

@test "threads auto takes the remembered places, but none that another run has" {
  [ "$(nproc)" -ge 4 ] || skip "there are less than four CPUs"
  unshare -rn true 2>/dev/null || skip "runs of others cannot be kept out of sight"
  printf '#!/bin/sh\nexec unshare -rn %s "$@"\n' "$HEDDLE" >alone
  chmod +x alone
  export HWLOC_SYNTHETIC="pack:2 core:1 pu:2"
  quiet
  tune >out
  sed -i 's/"placement": "[a-z]*"/"placement": "compact"/; s/"threads": [0-9]*/"threads": 2/' .cache/heddle/threads.json
  HEDDLE=$PWD/alone start --model simplenet --epochs 1000000 --log-every 1 --out any
  await_line 'step [0-9]*:'
  [ "$(threads_of "$CHILD")" = "0 1" ]
  nsenter -U -n -t "$CHILD" "$HEDDLE" train --model simplenet --epochs 1000000 --out other >other.out 2>&1 3>&- &
  other=$!
  until [ -e other/metrics.jsonl ] && [ -s other/metrics.jsonl ]; do kill -0 "$other"; done
  threads=$(threads_of "$other")
  kill -TERM "$other" "$CHILD"
  wait "$other" || true
  finish
  [ "$threads" = "0 2" ] || { echo "expected the placement physical, found CPUs $threads"; false; }
}

@test "a model's name cannot write into the page" {
  printf 'model: <b>&\ninput: [1, 28, 28]\nlayers:\n  - f: {op: flatten}\n  - l: {op: linear, out: 10}\n' >net.yaml
  "$HEDDLE" tune --model ./net.yaml --seconds 0.1 --html t.html >out
  grep -q '<i>&lt;b&gt;&amp;</i>' t.html
  no grep -q '<b>' t.html
}

@test "what was found is remembered, and threads auto takes it; a number of threads wins" {
  quiet
  tune --json >out
  file=.cache/heddle/threads.json
  grep -q '"threads": ' $file
  sed -i 's/"threads": [0-9]*/"threads": 1/' $file
  train --max-steps 2 --out one
  grep -q '"threads": 1,' out
  train --max-steps 2 --threads 2 --out two
  grep -q '"threads": 2,' out
}

@test "the number of threads says where it is from; an old result is not used" {
  [ "$(nproc)" -ge 2 ] || skip "there is one CPU"
  quiet
  tune >out
  no grep -q '^not saved' out
  file=.cache/heddle/threads.json
  today=$(date -u +%Y-%m-%d)
  grep -q "\"measured\": \"$today" $file
  grep -q '"load": null' $file
  sed -i 's/"threads": [0-9]*/"threads": 1/' $file
  "$HEDDLE" train --model simplenet --max-steps 2 --out kept >out
  tr '\n' ' ' <out | grep -q "1 thread (saved by .tune. on $today) on "
  "$HEDDLE" train --model simplenet --max-steps 2 --threads 1 --out given >out
  head -n 3 out | tr '\n' ' ' | grep -q '1 thread on '
  for day in 2020-02-29 9999-01-01 '' today; do # too old, to come, none
    sed "s/\"measured\": \"[^\"]*\"/\"measured\": \"$day\"/" $file >changed
    mkdir -p "other-$day"
    cp changed "other-$day/threads.json"
    HEDDLE_CACHE=$PWD/other-$day "$HEDDLE" train --model simplenet --max-steps 2 --out "run-$day" >out
    no grep -q 'saved by' out
  done
  start --model mlp --epochs 1000 --out searched
  await_line '\(searched just now: .* (was|were) [a-z ]*\) on '
  kill -TERM "$CHILD"
  finish
}

@test "what is measured on a busy machine is not kept, which is said" {
  [ -r /proc/stat ] || skip "the load cannot be read"
  others=
  for _ in $(seq "$(nproc)"); do
    while :; do :; done 3>&- &
    others="$others $!"
  done
  "$HEDDLE" tune --model simplenet --seconds 1 --json >out || true
  "$HEDDLE" tune --model simplenet --seconds 1 >text || true
  kill $others
  grep -q '"busy": true' out
  grep -Eq '^not saved  .* other processes kept [0-9.]+ CPUs busy' text
  [ ! -e .cache/heddle/threads.json ]
}

@test "a damaged cache counts as absent; one that cannot be written is not" {
  quiet
  mkdir -p cache
  echo '{"broken' >cache/threads.json
  export HEDDLE_CACHE=$PWD/cache
  train --max-steps 2 --out run
  tune >out
  grep -q '"threads": ' cache/threads.json
  export HEDDLE_CACHE=/proc/none
  tune >out
}

@test "in a shared cache what another user may have written counts as absent, and a pipe blocks nothing" {
  quiet
  export HEDDLE_CACHE=$PWD/cache
  mkdir -m 1777 cache
  (umask 0 && tune >out)
  [ -z "$(find cache -type f -perm /022)" ]
  sed -i 's/"threads": [0-9]*/"threads": 1/' cache/threads.json
  train --max-steps 2 --out taken
  grep -q '"threads": 1,' out
  if [ "$(nproc)" -gt 1 ]; then
    chmod 666 cache/threads.json
    train --max-steps 2 --out left # too short for a search
    no grep -q '"threads": 1,' out
  fi
  rm cache/threads.json
  mkfifo cache/threads.json
  timeout "$LIMIT_S" "$HEDDLE" train $TINY --max-steps 2 --out pipe >out
  rm cache/threads.json
  tune >out
  chown 12345 cache/threads.json 2>/dev/null || skip "only root may give a file away"
  tune >out
  [ "$(cd cache && echo *)" = "threads.json threads.json-$(id -u)" ]
}

@test "a run may be tuned while it is trained: it is read, never locked or written" {
  start --model simplenet --data $FEW --epochs 1000000 --log-every 1 --save-every 5 --keep 1000 --out run --threads 1
  until [ -e run/last ]; do # a checkpoint is written beside the steps
    await_line 'step [0-9]*:'
  done
  tune --resume run >out
  kill -TERM "$CHILD"
  finish
  [ "$code" -eq 143 ]
  find run -type f -exec sha256sum {} + | sort >before
  tune --resume run >out
  find run -type f -exec sha256sum {} + | sort | cmp - before
}

@test "what it refuses" {
  fails 2 tune --seconds 0
  says "0.1 to 86400" "'0'"
  fails 2 tune --seconds soon
  fails 2 tune --sweep colours
  says "threads" "'colours'"
  for list in '' , threads, ,placement 'threads placement'; do
    fails 2 tune --sweep "$list"
  done
  fails 2 tune --sweep placement --placement spread
  says "found --placement"
  fails 2 tune --sweep threads,placement --cpus 0
  says "found --cpus"
  quick="--model simplenet --data $FEW --seconds 0.1"
  for layout in "--procs 2" "--device cuda" "--stages 2" "--stages auto"; do
    fails 2 tune $quick $layout
    says "threads of one process on the CPU, found $layout;"
  done
  tune --sweep placement --device auto --procs 1 --stages 1 >out
  HWLOC_SYNTHETIC="pack:2 core:2 pu:2" fails 2 tune $quick --sweep threads,placement,workers
  says "at most 64 settings" "leave placement or workers out"
  fails 2 tune simplenet
  fails 1 tune --html none/page.html
  says "none/page.html"
  echo old >t.csv
  fails 2 tune --model nosuch --csv t.csv --html t.html
  [ "$(cat t.csv)" = old ]
  [ ! -e t.html ]
  mkdir d
  fails 1 tune --csv d
  says "cannot write d: "
}
