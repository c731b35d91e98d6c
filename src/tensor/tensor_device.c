/* Tensors on a GPU: copies to and from it, and the few operations that exist there. They use the kernels of networks,
 * whose chains are those of tensors on the CPU.
 *
 * Calls return when their copies and kernels are done, so that any thread may read the tensor. */
#include "tensor/eager.h"

#include "kernel/cuda/cuda_call.h"

/* ---- Copies ---- */

/* `there`: on the GPU of `on`. */
static hd_status move_bytes(const hd_tensor *on, hd_ctx *ctx, void *here, int64_t bytes, bool there) {
  const cu_pointer at = (cu_pointer)(uintptr_t)on->data;
  if (bytes == 0)
    return HD_OK;
  const hd_cuda *cuda = hd__cuda_lock(on->storage->gpu);
  const cu_result error = there ? cuda->driver.upload(at, here, (size_t)bytes, cuda->compute)
                                : cuda->driver.download(here, at, (size_t)bytes, cuda->compute);
  hd_status status = hd__cuda_check(cuda, ctx, error, there ? "copying to the GPU" : "copying from the GPU");
  HD_THEN(status, hd__cuda_check(cuda, ctx, cuda->driver.stream_wait(cuda->compute), "copying a tensor"));
  hd__cuda_unlock(on->storage->gpu);
  return status;
}

static hd_status to_gpu(hd_tensor **out, hd_ctx *ctx, const hd_tensor *x, hd_device device) {
  hd_tensor *dense = NULL;
  if (!hd__tensor_contiguous(x))
    HD_TRY(hd_tensor_to_dtype(&dense, ctx, x, x->dtype));
  hd_status status = hd__tensor_new_on(out, ctx, device, x->dtype, x->ndim, x->size);
  HD_THEN(status,
          hd__tensor_keep(out, move_bytes(*out, ctx, dense ? dense->data : x->data, (*out)->storage->bytes, true)));
  hd_tensor_destroy(dense);
  return status;
}

/* Elements from the first to the last one, in memory. */
static int64_t span_of(const hd_tensor *x) {
  int64_t span = 1;
  for (int d = 0; d < x->ndim; d++)
    span += (x->size[d] - 1) * x->stride[d];
  return hd_tensor_elems(x) == 0 ? 0 : span;
}

/* Copies a view together with the bytes between its elements, and makes it dense on the CPU. */
static hd_status to_cpu(hd_tensor **out, hd_ctx *ctx, const hd_tensor *x) {
  hd_tensor *span;
  *out = NULL;
  HD_TRY(hd__tensor_new(&span, ctx, x->dtype, HD_DIMS(span_of(x))));
  hd_status status = move_bytes(x, ctx, span->data, span->storage->bytes, false);
  if (status == HD_OK) {
    hd_tensor view = *x;
    view.storage = span->storage;
    view.data = span->data;
    view.device = span->device;
    status = hd_tensor_to_dtype(out, ctx, &view, view.dtype);
  }
  hd_tensor_destroy(span);
  return status;
}

hd_status hd_tensor_to(hd_tensor **out, hd_ctx *ctx, const hd_tensor *x, hd_device device) {
  hd_tensor *here;
  *out = NULL;
  HD_TRY(hd__tensor_given(ctx, x));
  if ((device.kind != HD_CPU && device.kind != HD_CUDA) || device.index < 0 || (device.kind == HD_CPU && device.index))
    return hd__fail(ctx, HD_E_USAGE, "expected a device (HD_CPU, 0) or (HD_CUDA, index), found kind %d, index %d",
                    (int)device.kind, (int)device.index);
  if (device.kind == x->device.kind && device.index == x->device.index)
    return hd__tensor_share(out, ctx, x);
  if (x->device.kind == HD_CPU)
    return to_gpu(out, ctx, x, device);
  if (device.kind == HD_CPU)
    return to_cpu(out, ctx, x);
  HD_TRY(to_cpu(&here, ctx, x));
  const hd_status status = to_gpu(out, ctx, here, device);
  hd_tensor_destroy(here);
  return status;
}

hd_status hd__gpu_clone(hd_tensor **out, hd_ctx *ctx, const hd_tensor *x) {
  hd_tensor *here;
  HD_TRY(to_cpu(&here, ctx, x));
  const hd_status status = to_gpu(out, ctx, here, x->device);
  hd_tensor_destroy(here);
  return status;
}

/* ---- Operations ---- */

static hd_status check_operand(hd_ctx *ctx, const hd_tensor *x) {
  char text[HD_DEVICE_TEXT_BYTES];
  if (x->dtype != HD_F32)
    return hd__fail(ctx, HD_E_UNSUPPORTED,
                    "expected float32 on %s, found %s; convert it on cpu with hd_tensor_to_dtype",
                    hd_device_text(text, x->device), hd__dtype_text(x->dtype));
  if (!hd__tensor_contiguous(x) || hd_tensor_elems(x) > INT32_MAX)
    return hd__fail(ctx, HD_E_UNSUPPORTED,
                    "expected a contiguous tensor of at most %d elements on %s, found a view or a larger one; use a "
                    "clone, or move it with hd_tensor_to",
                    INT32_MAX, hd_device_text(text, x->device));
  return HD_OK;
}

/* A kernel over rows samples of `columns` outputs each. */
static hd_status launch(hd_tensor *out, hd_ctx *ctx, hd_op op, hd_cuda_call *call, int64_t columns, int64_t rows) {
  const hd_cuda_step step = {.rows = rows, .samples = rows};
  cu_pointer memory = 0;
  hd_cuda *cuda = hd__cuda_lock(out->storage->gpu);
  hd_status status = hd__cuda_take_for(&memory, cuda, ctx, (int64_t)sizeof step, HD_GPU_TENSORS);
  call->out[0] = out->data;
  call->step = (const hd_cuda_step *)(uintptr_t)memory;
  if (status == HD_OK)
    status =
        hd__cuda_check(cuda, ctx, cuda->driver.upload(memory, &step, sizeof step, cuda->compute), "copying to the GPU");
  HD_THEN(status, hd__cuda_launch(cuda, ctx, (int)op, columns, rows, call));
  HD_THEN(status, hd__cuda_check(cuda, ctx, cuda->driver.stream_wait(cuda->compute), "computing"));
  hd__cuda_free(cuda, memory);
  hd__cuda_unlock(out->storage->gpu);
  return status;
}

hd_status hd__gpu_each(hd_tensor **out, hd_ctx *ctx, hd_op op, const hd_tensor *a, const hd_tensor *b) {
  const int64_t elems = hd_tensor_elems(a);
  hd_cuda_call call = {.g = {.ci = (int32_t)elems, .hi = 1, .wi = 1}, .in = {a->data, b ? b->data : NULL}};
  HD_TRY(check_operand(ctx, a));
  if (b)
    HD_TRY(check_operand(ctx, b));
  HD_TRY(hd__tensor_new_on(out, ctx, a->device, HD_F32, a->ndim, a->size));
  return elems == 0 ? HD_OK : hd__tensor_keep(out, launch(*out, ctx, op, &call, elems, 1));
}

/* The gradient of a linear layer's input: acc = fma(a[k], b[k], acc), k ascending. */
hd_status hd__gpu_matmul(hd_tensor **out, hd_ctx *ctx, const hd_tensor *a, const hd_tensor *b) {
  char left[HD_SIZES_TEXT_BYTES], right[HD_SIZES_TEXT_BYTES];
  HD_TRY(check_operand(ctx, a));
  HD_TRY(check_operand(ctx, b));
  if (a->ndim != 2 || b->ndim != 2)
    return hd__fail(ctx, HD_E_UNSUPPORTED, "expected two matrices on a GPU, found %s by %s; reshape them",
                    hd__sizes_text(left, a->ndim, a->size), hd__sizes_text(right, b->ndim, b->size));
  const int64_t m = a->size[0], k = a->size[1], n = b->size[1];
  hd_cuda_call call = {
      .g = {.co = (int32_t)k, .ci = (int32_t)n}, .in = {a->data, b->data}, .in_stride = {k}, .out_stride = {n}};
  HD_TRY(hd__tensor_new_on(out, ctx, a->device, HD_F32, HD_DIMS(m, n)));
  return m == 0 || n == 0 ? HD_OK : hd__tensor_keep(out, launch(*out, ctx, HD_OP_linear_dx, &call, n, m));
}
