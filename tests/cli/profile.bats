# train --profile FILE: the command's report, and that the file exists however the run ends.

load cli

@test "a profile is summed up in one line, and changes no digest" {
  train
  plain=$DIGEST
  train --profile p.json --threads 2
  [ "$DIGEST" = "$plain" ]
  grep -Eqx 'profile         p.json: of all threads.? time .*fc forward [0-9]+ %.*, waiting [0-9.]+ %; thread '\
'[01] waited for thread [01] for [0-9.]+ % of its time; 50 of 50 steps' out
  [ "$(head -c 1 p.json)" = "{" ]
  json_keys <<<"$(tr -d '\n' <p.json)" | grep -q traceEvents
  nothing_half_written
}

@test "a file that cannot be written is refused before the first step" {
  fails 1 train $TINY --profile nowhere/p.json
  says "--profile" "nowhere/p.json"
  [ ! -e runs ]
}

@test "a run that is stopped by a signal has its profile" {
  start --model simplenet --epochs 1000 --log-every 20 --out r --profile p.json
  await_line 'step 40:'
  kill -TERM "$CHILD"
  finish
  [ "$code" -eq 143 ]
  grep -q '^profile         p.json: ' rest
  [ "$(tail -c 3 p.json)" = "]}" ]
  grep -q '"name": "step", "cat": "step", "args": {"step": 40,' p.json
  nothing_half_written
}

@test "gradients that only a layer needs whose training has ended are no longer computed" {
  "$HEDDLE" train --model lenet5 --data digits --batch 250 --epochs 2 --threads 1 --profile p.json \
    --parameters '[{match: "conv1.*", epochs: 1}]' >out
  first=$(grep -c '"name": "conv1 dw"' p.json)
  second=$(grep -c '"name": "conv2 dw"' p.json)
  [ "$first" -gt 0 ]
  [ "$second" -eq $((2 * first)) ]
}

@test "threads share a first layer whose weights one of them owns" {
  printf '%s\n' 'model: two' 'input: [1, 28, 28]' 'layers:' '  - flat: {op: flatten}' \
    '  - fc1: {op: linear, out: 300}' '  - relu: {op: relu}' '  - fc2: {op: linear, out: 1200}' \
    '  - fc3: {op: linear, out: 10}' >two.yaml
  "$HEDDLE" train --model two.yaml --data digits --threads 2 --max-steps 2 --profile p.json >out
  for thread in 1 2; do
    [ "$(grep '"name": "fc1 forward"' p.json | grep -c "\"tid\": $thread\b")" = 2 ]
  done
}

@test "HEDDLE_LOG has a line for each event, with time, rank and thread, and changes nothing" {
  "$HEDDLE" train $TINY --max-steps 4 --threads 2 --workers 1 --save-every 2 --out plain >out 2>err
  [ ! -s err ]
  wanted=$(digest_of out)
  HEDDLE_LOG=plan,exec,data,save "$HEDDLE" train $TINY --max-steps 4 --threads 2 --workers 1 --save-every 2 --out r \
    >out 2>log
  [ "$(digest_of out)" = "$wanted" ]
  no grep -Ev '^heddle: [0-2][0-9]:[0-5][0-9]:[0-6][0-9]\.[0-9]{6} rank 0 (main|saver|(thread|loader) [01]): '\
'(plan|exec|data|save): ' log
  grep -q ' main: plan: pass recompute: ' log
  [ "$(grep -c ' thread 1: exec: step of ' log)" = 4 ]
  grep -q ' loader 0: data: batch 4: rows 0 to ' log
  grep -q ' thread 0: save: step 2 copied$' log
  grep -q ' saver: save: step 4: saved after ' log
  HEDDLE_LOG=ranks "$HEDDLE" train $TINY --max-steps 4 --procs 2 --out two >out 2>log
  [ "$(digest_of out)" = "$wanted" ]
  grep -Eq ' rank 1 main: ranks: joined the 2 ranks of this host, process [0-9]+$' log
  [ "$(grep -c 'ranks: leaves$' log)" = 2 ]
}

@test "an unknown topic of HEDDLE_LOG is refused by name" {
  HEDDLE_LOG=exec,steps fails 2 train $TINY
  says "HEDDLE_LOG expects a list of plan, exec, data, ranks and save, found 'steps' in 'exec,steps'"
  HEDDLE_LOG=all fails 2 eval nowhere
}
