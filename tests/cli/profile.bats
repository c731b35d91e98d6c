# train --profile FILE: the command's report, and that the file exists however the run ends.

load cli

@test "a profile is summed up in one line, and changes no digest" {
  train
  plain=$DIGEST
  train --profile p.json --threads 2
  [ "$DIGEST" = "$plain" ]
  grep -Eqx 'profile         p.json: .*fc forward [0-9]+ %.*, waiting [0-9.]+ % \(thread [01] for thread [01]: [0-9.]+ %\); 50 of 50 steps' out
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
  [ "$first" -gt 0 ] && [ "$second" -eq $((2 * first)) ]
}
