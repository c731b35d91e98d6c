/* Memory of a GPU and its account by purpose: every block is allocated and freed here.
 *
 * A block is allocated whole; its user divides it and gives the bytes for each purpose, the rest is padding. `reserved`
 * counts whole blocks, `allocated` the bytes with a purpose. */
#include <stdio.h>

#include "base/alloc.h"
#include "exec/gpu/device/cuda_device.h"

_Static_assert((int)HD_GPU_PURPOSES <= (int)HD_GPU_PARTS, "each purpose is reported");

typedef struct cuda_block {
  struct cuda_block *next;
  cu_pointer memory;
  int64_t bytes;
  bool pinned; /* memory of the host */
  hd_cuda_bytes parts;
} cuda_block;

static const char *const names[HD_GPU_PURPOSES] = {
    [HD_GPU_WEIGHTS] = "weights",     [HD_GPU_OPTIMIZER] = "optimizer",   [HD_GPU_SAMPLES] = "samples and activations",
    [HD_GPU_GRADIENTS] = "gradients", [HD_GPU_TABLES] = "tables",         [HD_GPU_LIBRARIES] = "libraries",
    [HD_GPU_DATA] = "data set",       [HD_GPU_EVALUATION] = "evaluation", [HD_GPU_TENSORS] = "tensors"};

const char *hd__cuda_bytes_text(char text[HD_CUDA_BYTES_TEXT], const hd_cuda_bytes *bytes) {
  const double mib = 1 << 20;
  int at = 0;
  for (int p = 0; p < HD_GPU_PURPOSES; p++)
    if (bytes->of[p] > 0)
      at += snprintf(text + at, (size_t)(HD_CUDA_BYTES_TEXT - at), "%s%s %.1f", at ? ", " : "", names[p],
                     (double)bytes->of[p] / mib);
  snprintf(text + at, (size_t)(HD_CUDA_BYTES_TEXT - at), at ? " MiB" : "nothing");
  return text;
}

void hd__cuda_memory(hd_gpu_memory *out, hd_cuda *cuda) {
  const hd_cuda_account *a = &cuda->account;
  *out = (hd_gpu_memory){.index = cuda->index,
                         .allocated_bytes = a->allocated,
                         .reserved_bytes = a->reserved,
                         .peak_bytes = a->peak,
                         .host_bytes = a->host,
                         .free_bytes = hd__cuda_free_bytes(cuda),
                         .total_bytes = cuda->memory_bytes};
  for (int p = 0; p < HD_GPU_PURPOSES; p++)
    out->part[p] = (hd_gpu_part){names[p], a->now.of[p], a->most.of[p]};
}

/* sign: 1 for an allocated block, -1 for a freed one. */
static void enter(hd_cuda_account *a, const cuda_block *block, int sign) {
  if (block->pinned) {
    a->host += sign * block->bytes;
    return;
  }
  a->reserved += sign * block->bytes;
  a->peak = a->reserved > a->peak ? a->reserved : a->peak;
  for (int p = 0; p < HD_GPU_PURPOSES; p++) {
    a->allocated += sign * block->parts.of[p];
    a->now.of[p] += sign * block->parts.of[p];
    a->most.of[p] = a->now.of[p] > a->most.of[p] ? a->now.of[p] : a->most.of[p];
  }
}

int64_t hd__cuda_free_bytes(hd_cuda *cuda) {
  size_t free_bytes = 0, all;
  hd__cuda_use(cuda);
  return cuda->driver.memory_info(&free_bytes, &all) == CU_DONE ? (int64_t)free_bytes : 0;
}

static hd_status too_little(hd_cuda *cuda, hd_ctx *ctx, int64_t bytes, const hd_cuda_bytes *parts) {
  const double mib = 1 << 20;
  char wanted[HD_CUDA_BYTES_TEXT], held[HD_CUDA_BYTES_TEXT];
  return hd__fail(ctx, HD_E_NOMEM,
                  "GPU %d (%s) is out of memory: expected %.1f MiB free (%s), found %.1f of %.1f MiB, of which this "
                  "process holds %s; free some, or use --device cpu",
                  cuda->index, cuda->name, (double)bytes / mib, hd__cuda_bytes_text(wanted, parts),
                  (double)hd__cuda_free_bytes(cuda) / mib, (double)cuda->memory_bytes / mib,
                  hd__cuda_bytes_text(held, &cuda->account.now));
}

static hd_status clear(hd_cuda *cuda, hd_ctx *ctx, cu_pointer memory, int64_t bytes) {
  HD_TRY(
      hd__cuda_check(cuda, ctx, cuda->driver.memory_clear(memory, 0, (size_t)bytes, cuda->compute), "clearing memory"));
  return hd__cuda_check(cuda, ctx, cuda->driver.stream_wait(cuda->compute), "clearing memory");
}

static void keep(hd_cuda *cuda, cuda_block *block) {
  block->next = cuda->account.blocks;
  cuda->account.blocks = block;
  enter(&cuda->account, block, 1);
}

/* NULL: no such block. */
static cuda_block *drop(hd_cuda *cuda, cu_pointer memory) {
  cuda_block **at = &cuda->account.blocks;
  while (*at && (*at)->memory != memory)
    at = &(*at)->next;
  cuda_block *block = *at;
  if (block) {
    *at = block->next;
    enter(&cuda->account, block, -1);
  }
  return block;
}

static cuda_block *new_block(int64_t bytes, bool pinned) {
  cuda_block *block = hd__calloc(1, sizeof *block);
  if (block)
    *block = (cuda_block){.bytes = bytes > 0 ? bytes : 1, .pinned = pinned};
  return block;
}

hd_status hd__cuda_take(cu_pointer *out, hd_cuda *cuda, hd_ctx *ctx, int64_t bytes, const hd_cuda_bytes *parts) {
  *out = 0;
  cuda_block *block = new_block(bytes, false);
  HD_TRY(HD_ALLOCATED(block, ctx, "out of memory for the account of the GPU's"));
  block->parts = *parts;
  hd__cuda_use(cuda);
  const cu_result error = cuda->driver.memory_take(&block->memory, (size_t)block->bytes);
  if (error != CU_DONE) {
    hd__free(block);
    return error == CU_OUT_OF_MEMORY ? too_little(cuda, ctx, bytes, parts)
                                     : hd__cuda_check(cuda, ctx, error, "taking memory");
  }
  keep(cuda, block);
  *out = block->memory;
  return clear(cuda, ctx, block->memory, block->bytes);
}

hd_status hd__cuda_take_for(cu_pointer *out, hd_cuda *cuda, hd_ctx *ctx, int64_t bytes, hd_gpu_purpose purpose) {
  hd_cuda_bytes parts = {{0}};
  parts.of[purpose] = bytes;
  return hd__cuda_take(out, cuda, ctx, bytes, &parts);
}

void hd__cuda_free(hd_cuda *cuda, cu_pointer memory) {
  cuda_block *block = memory ? drop(cuda, memory) : NULL;
  if (block) {
    hd__cuda_use(cuda);
    cuda->driver.memory_free(memory);
  }
  hd__free(block);
}

hd_status hd__cuda_take_host(void **out, hd_cuda *cuda, hd_ctx *ctx, int64_t bytes) {
  *out = NULL;
  cuda_block *block = new_block(bytes, true);
  HD_TRY(HD_ALLOCATED(block, ctx, "out of memory for the account of the GPU's"));
  hd__cuda_use(cuda);
  const cu_result error = cuda->driver.host_take(out, (size_t)block->bytes, 0);
  if (error != CU_DONE) {
    *out = NULL;
    hd__free(block);
    return hd__cuda_check(cuda, ctx, error, "taking memory of the host for copies");
  }
  block->memory = (cu_pointer)(uintptr_t)*out;
  keep(cuda, block);
  return HD_OK;
}

void hd__cuda_free_host(hd_cuda *cuda, void *memory) {
  cuda_block *block = memory ? drop(cuda, (cu_pointer)(uintptr_t)memory) : NULL;
  if (block) {
    hd__cuda_use(cuda);
    cuda->driver.host_free(memory);
  }
  hd__free(block);
}
