# For scripts that train on a GPU: by default that of the driver's stub, with HD_GPU=real, as make check-gpu sets it,
# the machine's.
if [ "${HD_GPU:-stub}" = real ]; then
  HEDDLE_CUDA_MODULE=$BUILDDIR/.libs/heddle-cuda.so
else
  HEDDLE_CUDA_DRIVER=$BUILDDIR/tests/cuda/.libs/driver_stub.so
  HEDDLE_CUDA_MODULE=$BUILDDIR/tests/cuda/.libs/module_stub.so
  HEDDLE_CUDA_LIBRARIES=$BUILDDIR/tests/cuda/.libs/library_stub.so
  HEDDLE_NCCL=$BUILDDIR/tests/cuda/.libs/nccl_stub.so
  export HEDDLE_CUDA_DRIVER HEDDLE_CUDA_LIBRARIES HEDDLE_NCCL
fi
export HEDDLE_CUDA_MODULE

# gpu_arch FOLDER: prints the architecture that JSON names, such as sm_90; or, failing, why there is no GPU.
gpu_arch() {
  rm -rf "$1/gpu-run"
  if "$HEDDLE" train --device cuda --model simplenet --max-steps 1 --json --out "$1/gpu-run" >"$1/gpu-json" \
    2>"$1/gpu-err"; then
    tail -n 1 "$1/gpu-json" | sed -n 's/.*"isa": "\([^"]*\)".*/\1/p'
  else
    cat "$1/gpu-err"
    return 1
  fi
}
