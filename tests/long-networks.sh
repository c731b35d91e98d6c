#!/bin/sh
# TAP: HD_NETWORKS (5,000) random networks, each as the plain plan, without each choice of plans and kernels, and on
# other layouts: equal bits. And 500 of them beside PyTorch in float64, where $PYTHON (python3) has it. HD_FIRST is the
# first seed (0). `make check-long` runs it: it takes minutes.
. "$SRCDIR/tests/tap.sh"
networks=${HD_NETWORKS:-5000} first=${HD_FIRST:-0} python=${PYTHON:-python3}

"$BUILDDIR/tests/plan/test_networks" "$networks" "$first" >"$folder/out"
result $? "from seed $first on: $(sed -n 's/^ok 2 - //p' "$folder/out")" "$(cat "$folder/out")"

if "$python" -c 'import numpy, safetensors, torch, yaml' 2>/dev/null; then
  "$python" -W ignore "$SRCDIR/tools/pytorch/torch_networks.py" --build "$BUILDDIR" --count 500 --first "$first" \
    >"$folder/out" 2>&1
  result $? "$(tail -n 1 "$folder/out")" "$(cat "$folder/out")"
else
  result skip "$python has no torch, numpy, safetensors and yaml; name one that has in PYTHON"
fi
echo "1..$count"
