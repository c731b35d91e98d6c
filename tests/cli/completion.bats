# The completions that shells load know every command, option and value, and where files belong.

load cli

setup_completions() {
  COMPLETIONS=$BUILDDIR/completions
  [ -f "$COMPLETIONS/heddle" ] || skip "completions are made by builds that can run what they make"
  COMMANDS=$("$HEDDLE" --help | sed -n 's/^  \([a-z]*\)  .*/\1/p')
  mkdir -p folder/inner
  touch 'a picture.png' net.yaml
}

# completed WORD...: what bash offers for the last word, one a line.
completed() {
  bash --norc -c '. "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _heddle; printf "%s\n" "${COMPREPLY[@]}"' \
    "$COMPLETIONS/heddle" "$@" | sort >offered
}
offers() {
  local name
  for name; do
    grep -Fxq -- "$name" offered || { echo "expected '$name' to be offered, found: $(cat offered)"; return 1; }
  done
}
optimizers() { sed -n 's/^OPTIMIZER(\(.*\))$/\1/p' "$SRCDIR/src/kernel/optimizers.def" | sort; }
offers_no() { ! grep -Fxq -- "$1" offered || { echo "expected '$1' not to be offered, found it"; false; }; }

@test "bash completes commands" {
  setup_completions
  completed heddle ''
  offers $COMMANDS help --help --version
  completed heddle tr
  [ "$(cat offered)" = train ]
  completed heddle help su
  [ "$(cat offered)" = summary ]
}

@test "bash completes every option of every command" {
  setup_completions
  for command in $COMMANDS; do
    completed heddle "$command" -
    COLUMNS=1000 "$HEDDLE" "$command" --help >help
    if grep -q '^and the options of heddle train' help; then COLUMNS=1000 "$HEDDLE" train --help >>help; fi
    offers $(sed -nE 's/^  (-[a-z], )?(--[a-z-]*).*/\2/p' help)
  done
}

@test "bash completes values, with a blank and with =" {
  setup_completions
  completed heddle train --optimizer ''
  [ "$(cat offered)" = "$(optimizers)" ]
  completed heddle train --eps '' # help names the optimizers that take it
  [ -z "$(cat offered)" ]
  completed heddle train --schedule = one
  [ "$(cat offered)" = onecycle ]
  completed heddle train --schedule =
  offers cosine onecycle
  completed heddle tune --model ''
  offers cnn mnist-99 net.yaml folder
  completed heddle train --data ci
  [ "$(echo $(cat offered))" = "cifar10 cifar100" ]
  completed heddle train --lr ''
  [ -z "$(cat offered)" ]
}

@test "bash completes files, folders and words of commands" {
  setup_completions
  completed heddle predict runs/cnn-1 a
  [ "$(cat offered)" = 'a picture.png' ]
  completed heddle train --out ''
  offers folder
  offers_no net.yaml
  completed heddle bench lo
  [ "$(cat offered)" = loader ]
  completed heddle get fa
  [ "$(cat offered)" = fashion ]
  completed heddle launch -n 2 -- hea
  offers head
}

# typed RESULT SHELL...: a shell on a terminal gets two words, of which it completes the ends by tabs, and runs them.
typed() {
  local result=$1
  shift
  "$BUILDDIR/tests/cli/on_terminal" || skip "expected a terminal"
  "$BUILDDIR/tests/cli/on_terminal" 24x80 screen wait:READY send:$'heddle train --opti\tsg\t\n' "wait:ran: $result" \
    send:$'exit\n' -- "$@" || { cat screen; false; }
}

@test "bash takes the file, and completes what is typed" {
  setup_completions
  printf '. "%s/heddle"\nheddle() { echo "ran: $*"; }\nPS1="READY "\n' "$COMPLETIONS" >rc
  typed 'train --optimizer sgd' env INPUTRC=/dev/null TERM=dumb bash --noprofile --rcfile rc -i
}

@test "zsh takes the file, and completes what is typed" {
  setup_completions
  command -v zsh >/dev/null || skip "zsh is not installed"
  printf '%s\n' "fpath=('$COMPLETIONS' \$fpath)" 'autoload -Uz compinit' 'compinit -u -D' \
    'heddle() { echo "ran: $*" }' 'PS1="READY "' >.zshrc
  typed 'train --optimizer=sgd' env ZDOTDIR="$PWD" TERM=dumb zsh -i
}

@test "fish completes commands, options and values" {
  setup_completions
  command -v fish >/dev/null || skip "fish is not installed"
  ask() { fish --no-config -c "source '$COMPLETIONS/heddle.fish'; complete -C '$1'" | cut -f 1 | sort >offered; }
  ask 'heddle '
  offers $COMMANDS
  ask 'heddle train --opt'
  offers --optimizer
  ask 'heddle train --optimizer '
  [ "$(cat offered)" = "$(optimizers)" ]
  ask 'heddle eval fol'
  offers folder/
}
