# The manual has a page for each command, with what there is and nothing else.

load cli

setup_pages() {
  PAGES=$BUILDDIR/docs SOURCES=$SRCDIR/docs/man
  [ -f "$SOURCES/heddle.scd" ]
  COMMANDS=$("$HEDDLE" --help | sed -n 's/^  \([a-z]*\)  .*/\1/p')
  [ -n "$COMMANDS" ]
}

# plain PAGE: a page's text without formatting.
plain() {
  sed 's/\\f[A-Z]//g; s/\\-/-/g; s/\\//g' "$1"
}

# helps COMMAND: all that its help prints, that of its words included.
helps() {
  COLUMNS=1000 "$HEDDLE" "$1" --help | tee words
  for word in $(sed -n 's/^  \([a-z]*\)  .*/\1/p' words); do
    COLUMNS=1000 "$HEDDLE" "$1" "$word" --help
  done | tee -a words
  if grep -q '^and the options of heddle train' words; then COLUMNS=1000 "$HEDDLE" train --help; fi
}

@test "each command has a page, which has every option and value of its help" {
  setup_pages
  [ -f "$PAGES/heddle.1" ] || skip "expected pages, found none: scdoc is not installed, or this is a cross-build"
  for command in $COMMANDS; do
    helps "$command" >help
    plain "$PAGES/heddle-$command.1" >page
    grep -Eo -- '^  (-[a-z], )?--[a-z][a-z-]*' help | sed 's/.*--/--/' | sort -u >options
    [ -s options ]
    while read -r option; do
      grep -qE -- "^(.*, )?$option( |,|\$)" page || {
        echo "expected an entry for $option in heddle-$command.1"
        false
      }
    done <options
    for value in $(sed -nE 's/^ .*: ([a-z0-9_-]+(\|[a-z0-9_-]+)+).*/\1/p' help | tr '|' ' '); do
      grep -qw -- "$value" page || { echo "expected the value $value in heddle-$command.1"; false; }
    done
    grep -qw "heddle-$command" <<<"$(plain "$PAGES/heddle.1")"
  done
}

@test "there is no page without a command" {
  setup_pages
  for source in "$SOURCES"/*.scd; do
    name=${source##*/}
    [[ " heddle $(echo $COMMANDS) " == *" ${name%.scd} "* ]] || { echo "heddle has no command ${name%.scd}"; false; }
  done
}

@test "every option that the manual names exists" {
  setup_pages
  { for command in $COMMANDS; do helps "$command"; done && echo "--version"; } >help
  for option in $(cat "$SOURCES"/*.scd | grep -Eo -- '\*--[a-z-]*\*' | tr -d '*' | sort -u); do
    grep -q -- "$option\b" help || { echo "the manual has $option, the commands have not"; false; }
  done
}

@test "an entry for an option that the command lacks is an error, a new option gets its entry" {
  setup_pages
  "$SRCDIR/tools/list-options" "$HEDDLE" >table
  printf 'About it.\n\n# OPTIONS\n\n*--nowhere*\n\tText.\n' >text
  no "$SRCDIR/tools/make-page" digest 1.0 table <text >page 2>err
  grep -q 'expected an option of heddle digest, found --nowhere' err
  printf 'option\tdigest\t\t\tbrand-new\tN|auto\tauto\ta number (3)\n' >>table
  echo 'About it.' | "$SRCDIR/tools/make-page" digest 1.0 table >page
  grep -qF '*--brand-new* _N_|*auto*' page
  grep -q '^	A number (3)\.$' page
}

@test "the manual has every built-in model and exit code" {
  setup_pages
  fails 2 train --model nowhere
  for model in $(sed 's/.*--model expects \(.*\) or a .*/\1/; s/,//g' err); do
    grep -q "\*$model\*" "$SOURCES/train.scd"
  done
  for code in 0 1 2 3 4 129 130 143; do
    grep -q "\*$code\*" "$SOURCES/heddle.scd"
  done
}

@test "the manual has every variable that heddle reads or sets" {
  setup_pages
  grep -rhoE --include="*.[ch]" "\"(HEDDLE_|OMP_|NO_COLOR)[A-Z_]*\"" "$SRCDIR/src" | tr -d "\"" | sort -u >variables
  [ "$(wc -l <variables)" -ge 20 ]
  while read -r variable; do
    grep -q "\*$variable\*" "$SOURCES/heddle.scd" || { echo "heddle knows $variable, the manual does not"; false; }
  done <variables
}
