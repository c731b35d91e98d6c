# Runs, checkpoints and certificates that heddle 0.2.0 made, as it made them: a table, whose columns share one mean and
# deviation, and digits under a network that no later version of the arithmetic changed. They open, go on to 0.2.0's own
# digests, and verify.

load cli

# 0.2.0 gave these digests: at the certificates' ends, and at the ends of whole runs of 16 and 12 steps.
TABLE=cd4fbc673363646d4406528656463d4b710868d112b24b96622d9f5f313a5d4d
TABLE_16=c2d3d0fa18a17ba70692b197a6b7fb0772fbdb0aaa8f8e10587c22b29dd3e49e
DIGITS=5c8ebbdc0c607c0de7c697b0c3e38c7f29e9833aa641140ab05dfd392d254c5b
DIGITS_12=dbe7243652a87949bd2e8847af1cebbdfca73e4340399b4fe72cab5bf82af383

take() {
  cp -R "$SRCDIR/tests/older/0.2.0/." .
  chmod -R u+w .
}

@test "they are evaluated to 0.2.0's results" {
  take
  "$HEDDLE" eval table --json >out
  [ "$(printf '%.10g %.10g' $(json_get loss accuracy <out))" = "0.7700852097 0.5" ]
  "$HEDDLE" eval table/step-4 --json >out
  # By the mean of all columns, as 0.2.0 trained it: 4.0091 and 4.8594.
  "$HEDDLE" predict table flowers.csv >out
  grep -q '^flowers.csv:2 .* 0 .* 99.86 %.* 1 (0.12 %)' out
  grep -q '^flowers.csv:3 .* 2 .* 71.47 %.* 1 (20.19 %)' out
  "$HEDDLE" eval digits --json >out
  [ "$(printf '%.10g %.10g' $(json_get loss accuracy <out))" = "2.218242274 0.2811" ]
}

@test "they are verified, with their folders and by their certificates alone" {
  take
  for what in table table/certificate.json; do
    "$HEDDLE" verify $what >out
    grep -qx "verified 10 steps, weights_sha256 $TABLE" out
  done
  for what in digits digits/certificate.json; do
    "$HEDDLE" verify $what >out
    grep -qx "verified 6 steps, weights_sha256 $DIGITS" out
  done
  cp digits/certificate.json alone.json
  "$HEDDLE" verify alone.json >out
  "$HEDDLE" verify table --spot 2 >out
  sed -i 's/"lr": "0.1"/"lr": "0.2"/' alone.json
  code=0
  "$HEDDLE" verify alone.json >out 2>&1 || code=$?
  [ "$code" -ne 0 ]
}

@test "they go on to 0.2.0's digests, stay what they are, and are certified" {
  take
  "$HEDDLE" train --resume table --max-steps 16 >out
  [ "$(digest_of out)" = $TABLE_16 ]
  "$HEDDLE" train --resume digits --max-steps 12 --threads 2 >out
  [ "$(digest_of out)" = $DIGITS_12 ]
  no grep -q '"rules"\|"normalize"\|"header"' table/run.json
  for run in table digits; do
    "$HEDDLE" certify $run >/dev/null
    "$HEDDLE" verify $run >/dev/null
    "$HEDDLE" eval $run >/dev/null
  done
  "$HEDDLE" export digits --onnx digits.onnx >/dev/null
  "$HEDDLE" train --model flowers.yaml --init table/last/model.safetensors --data flowers.csv --max-steps 1 \
    --out other >/dev/null
}

@test "what 0.2.0 did not know is refused for them" {
  take
  for option in "--label stem" "--header no" "--normalize column" "--missing refuse" "--fold 1/5" \
    --allow-empty "--exif apply"; do
    fails 2 train --resume table $option --max-steps 12
    says "--resume table" "leave ${option%% *} out" || says "as in that run" "leave ${option%% *} out"
  done
  [ "$(readlink table/last)" = step-10 ]
}
