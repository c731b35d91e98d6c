# heddle tune: the table, JSON, CSV and page of the experiment, what it remembers, and what it refuses.

load cli

tune() {
  "$HEDDLE" tune --model simplenet --seconds 0.1 "$@"
}

@test "the table has a line for every number of threads up to the CPUs there are, and names one best" {
  tune >out
  cpus=$(grep -o ', [0-9]* CPUs of' out | tr -dc 0-9)
  [ "$(grep -cE '^ +[0-9]+ +[0-9,]+ .* %' out)" -eq "$cpus" ] || [ "$cpus" -gt 8 ]
  [ "$(grep -c ' best$' out)" -eq 1 ]
}

@test "--json: the promised keys, and the digest that train gets after as many steps" {
  need_json
  tune --json >out
  [ "$(json_keys <out)" = "model data isa batch cpus cpu settings best law steps weights_sha256" ]
  [ "$(json_get settings.0.threads settings.0.speedup settings.0.efficiency <out)" = "1 1.0 1.0" ] ||
    [ "$(json_get settings.0.threads settings.0.speedup settings.0.efficiency <out)" = "1 1 1" ] ||
    [ "$(json_get settings.0.threads settings.0.speedup settings.0.efficiency <out)" = "1 1.0000 1.0000" ]
  wanted=$(json_get weights_sha256 <out) steps=$(json_get steps <out)
  train --max-steps "$steps" --threads 1 --out run
  [ "$DIGEST" = "$wanted" ]
}

@test "CSV and page hold the same settings, and no number that is none" {
  tune --csv t.csv --html t.html >out
  settings=$(grep -cE '^ +[0-9]+ +[0-9,]+ .* %' out)
  [ "$(head -n 1 t.csv)" = "threads,turns,samples_per_s,low,high,speedup,efficiency" ]
  [ "$(tail -n +2 t.csv | wc -l)" -eq "$settings" ]
  [ "$(grep -cE '^<tr( class="best")?><td>' t.html)" -eq "$settings" ]
  [ "$(grep -c '<svg ' t.html)" -eq 2 ]
  [ "$(grep -c '</svg>' t.html)" -eq 2 ]
  grep -q '^</body></html>' t.html || grep -q '</body></html>$' t.html
  no grep -E '[^a-z](nan|inf)[^a-z]' t.html t.csv
}

@test "a model's name cannot write into the page" {
  printf 'model: <b>&\ninput: [1, 28, 28]\nlayers:\n  - f: {op: flatten}\n  - l: {op: linear, out: 10}\n' >net.yaml
  "$HEDDLE" tune --model ./net.yaml --seconds 0.1 --html t.html >out
  grep -q '<i>&lt;b&gt;&amp;</i>' t.html
  no grep -q '<b>' t.html
}

@test "what was found is remembered, and threads auto takes it; a number of threads wins" {
  tune --json >out
  file=.cache/heddle/threads.json
  grep -q '"threads": ' $file
  sed -i 's/"threads": [0-9]*/"threads": 1/' $file
  train --max-steps 2 --out one
  grep -q '"threads": 1,' out
  train --max-steps 2 --threads 2 --out two
  grep -q '"threads": 2,' out
}

@test "a damaged cache counts as absent; one that cannot be written is not" {
  mkdir -p cache
  echo '{"broken' >cache/threads.json
  export HEDDLE_CACHE=$PWD/cache
  train --max-steps 2 --out run
  tune >out
  grep -q '"threads": ' cache/threads.json
  export HEDDLE_CACHE=/proc/none
  tune >out
}

@test "a run may be tuned while it is trained: it is read, never locked or written" {
  start --model simplenet --epochs 1000000 --log-every 1 --save-every 5 --keep 1000 --out run --threads 1
  await_line 'step 1[0-9]:'
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
  fails 2 tune simplenet
  fails 1 tune --html none/page.html
  says "none/page.html"
  fails 2 tune --model nosuch
}
