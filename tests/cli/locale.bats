# A locale with a decimal comma changes nothing: neither what is read nor what is written, least of all the digest.

load cli

# Finds a locale that writes 1,5 and puts its name into COMMA, making one where the sources of locales are installed.
comma_locale() {
  local name
  for name in $(locale -a 2>/dev/null | grep -E '^(de|fr|es|it|pt|pl|nl|sv|da|ru)_' | head -n 5); do
    [ "$(LC_ALL=$name printf %.1f 1 2>/dev/null)" = 1,0 ] && COMMA=$name && return 0
  done
  export LOCPATH=${BATS_FILE_TMPDIR:-$PWD}/locales # made once for all tests
  mkdir -p "$LOCPATH"
  [ -d "$LOCPATH/comma" ] ||
    localedef -c -i "$SRCDIR/tests/comma.locale" -f ANSI_X3.4-1968 "$LOCPATH/comma" >/dev/null 2>&1 || : # it warns
  COMMA=comma
  [ "$(LC_ALL=$COMMA bash -c 'printf %.1f 1')" = 1,0 ] || skip "there is no locale with a decimal comma"
}

@test "a decimal comma in LC_ALL: same digest, same numbers, valid JSON" {
  comma_locale
  printf 'lr: 0.0125\nbetas: [0.85, 0.995]\n' >c.yaml
  train --out r --config c.yaml --log-every 10
  wanted=$DIGEST keys=$(json_keys <out) numbers=$(json_get train_loss test_loss test_accuracy <out)
  LC_ALL=$COMMA train --out s --config c.yaml --log-every 10
  [ "$DIGEST" = "$wanted" ]
  [ "$(json_keys <out)" = "$keys" ]
  [ "$(json_get train_loss test_loss test_accuracy <out)" = "$numbers" ]
  cmp r/last/run.json s/last/run.json
  cmp r/last/model.safetensors s/last/model.safetensors
  [ "$(cut -d , -f 1-4 r/metrics.jsonl)" = "$(cut -d , -f 1-4 s/metrics.jsonl)" ]
  "$HEDDLE" eval r --json >wanted
  LC_ALL=$COMMA "$HEDDLE" eval r --json | cmp - wanted
  LC_ALL=$COMMA fails 2 train --lr 0,01
  says "'0,01'"
}

@test "a decimal comma in LC_ALL: a run is resumed under another locale" {
  comma_locale
  train --lr 0.0125
  wanted=$DIGEST
  LC_ALL=$COMMA train --out r --lr 0.0125 --max-steps 25
  "$HEDDLE" train --resume r --max-steps 40 >out
  LC_ALL=$COMMA "$HEDDLE" train --resume r --max-steps 50 >out
  [ "$(digest_of out)" = "$wanted" ]
}
