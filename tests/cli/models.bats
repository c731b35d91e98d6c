# heddle models: the list of built-in models, the file of one, and what it refuses.

load cli

@test "every built-in model is listed, in 80 columns, with its parameters and multiply-adds" {
  COLUMNS=80 "$HEDDLE" models >out
  awk 'length > 80 { print; bad = 1 } END { exit bad }' out
  for file in "$SRCDIR"/data/models/*.yaml; do
    name=${file##*/}
    grep -Eq "^${name%.yaml} " out
  done
  grep -Eq '^resnet18  +3x224x224  +11,689,512  +1,814,073,344$' out
  grep -A 1 '^resnet18 ' out | grep -qx '  The residual network of 18 layers for ImageNet'
  grep -Eq '^cnn  +1x28x28  +225,034  +2,631,040$' out
  grep -Eq '^gpt-nano  +64 ' out
  [ "$(sed '/^$/,$d' out | awk '/^[a-z]/ { print length }' | sort -u | wc -l)" -eq 1 ]
  for about in $(sed -n 's/^  //p' out | grep -c .) $("$HEDDLE" models --json | grep -o '"about"' | grep -c .); do
    [ "$about" -eq "$(ls "$SRCDIR"/data/models/*.yaml | wc -l)" ]
  done
}

@test "--json has the same, and the summary's numbers" {
  "$HEDDLE" models --json >out
  [ "$(wc -l <out)" -eq 1 ]
  number=0
  for file in $(LC_ALL=C ls "$SRCDIR"/data/models/*.yaml); do
    name=${file##*/} name=${name%.yaml}
    [ "$(json_get models.$number.name <out)" = "$name" ]
    "$HEDDLE" summary --model "$name" --json >summary
    [ "$(json_get models.$number.params models.$number.macs <out)" = "$(json_get params macs <summary)" ]
    number=$((number + 1))
  done
  [ "$(json_get models.5.name models.5.input models.5.of_data <out)" = "cnn 1x28x28 false" ]
}

@test "the file of a model is printed as it is, and trains" {
  for name in mlp resnet18 unet-small; do
    "$HEDDLE" models $name >$name.yaml
    cmp $name.yaml "$SRCDIR/data/models/$name.yaml"
  done
  "$HEDDLE" train --model mlp.yaml --data "$FEW" --max-steps 3 >out
  "$HEDDLE" models m5 --json >out
  [ "$(json_get name <out)" = m5 ]
}

@test "an unknown model and two models are refused" {
  fails 2 models resnet81
  says "found 'resnet81'" "did you mean resnet18?"
  fails 2 models nowhere
  says "models expects a model" "unet-small" "see heddle models"
  fails 2 models cnn mlp
  says "found 2"
}
