# The manual page names what there is, and nothing else.

load cli

setup_page() {
  PAGE=$SRCDIR/docs/heddle.1.scd
  [ -f "$PAGE" ]
  COMMANDS=$("$HEDDLE" --help | sed -n 's/^  \([a-z]*\)  .*/\1/p')
}

@test "the manual page has every option of every command's help" {
  setup_page
  for command in $COMMANDS; do
    "$HEDDLE" $command --help >help
    grep -Eo -- '--[a-z][a-z-]*' help | sort -u >options
    [ -s options ]
    while read -r option; do
      grep -q -- "\*$option\*" "$PAGE" || { echo "heddle $command has $option, the page has not"; false; }
    done <options
  done
}

@test "every option of the manual page exists" {
  setup_page
  { for command in $COMMANDS; do "$HEDDLE" "$command" --help; done && echo "--version --batch-size"; } >help
  for option in $(grep -Eo -- '\*--[a-z-]*\*' "$PAGE" | tr -d '*' | sort -u); do
    grep -q -- "$option\b" help || { echo "the page has $option, the commands have not"; false; }
  done
}

@test "the manual page has every command, built-in model and exit code" {
  setup_page
  for command in $COMMANDS; do
    grep -q "^\*heddle $command\*" "$PAGE"
  done
  fails 2 train --model nowhere
  for model in $(sed 's/.*--model expects \(.*\) or a .*/\1/; s/,//g' err); do
    grep -q "\*$model\*" "$PAGE"
  done
  for code in 0 1 2 3 4 129 130 143; do
    grep -q "\*$code\*" "$PAGE"
  done
}

@test "the manual page is well formed" {
  setup_page
  command -v scdoc >/dev/null || skip "scdoc is not installed"
  scdoc <"$PAGE" >page
  grep -q '^\.SH ENVIRONMENT' page
}

@test "the manual page has every variable that heddle reads or sets" {
  setup_page
  grep -rhoE --include="*.[ch]" "\"(HEDDLE_|OMP_|NO_COLOR)[A-Z_]*\"" "$SRCDIR/src" | tr -d "\"" | sort -u >variables
  [ "$(wc -l <variables)" -ge 20 ]
  while read -r variable; do
    grep -q "\*$variable\*" "$PAGE" || { echo "heddle knows $variable, the page does not"; false; }
  done <variables
}
