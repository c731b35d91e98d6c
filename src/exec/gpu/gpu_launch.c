/* Chooses the kernel of an operation on a GPU: of its block kernels the one with the largest tiles that still
 * occupies the whole GPU; if none takes the shape, the plain kernel with a thread per element. All compute the same
 * bits. */
#include "exec/gpu/gpu_executor_state.h"
#include "op/op_blocks.h"
#include "op/op_headers.h"

/* Threads of a plain kernel for each sample or shard. */
typedef int64_t count_fn(const hd_geom *g);
#define OP_ROWS(name) [HD_OP_##name] = name##_count,
#define OP_SHARD OP_ROWS
#define OP_REDUCE OP_ROWS
#define OP_STATS OP_ROWS
#define OP_UPDATE(name)
static count_fn *const counts[HD_OP_COUNT] = {
#define OP(name, class) OP_##class(name)
#include "kernel/ops.def"
};

#define OP(name, class) [HD_OP_##name] = HD_CLASS_##class == HD_CLASS_ROWS,
static const bool by_row[HD_OP_COUNT] = {
#include "kernel/ops.def"
};

typedef struct tiled {
  hd_op op;
  int kernel, a_side, b_side;
  hd_cuda_cut (*matrix)(const hd_geom *g, int64_t rows);
} tiled;

static const tiled kernels[] = {
#define BLOCK(name, args)
#define TILED(op, name, what, a_side, b_side) {HD_OP_##op, HD_CUDA_##name, a_side, b_side, what##_matrix},
#include "kernel/cuda/cuda_blocks.def"
};

/* Whether `blocks` blocks keep all multiprocessors occupied: at least half of these have two blocks. */
static bool is_busy(int64_t blocks, int processors) { return 2 * blocks >= 3 * (int64_t)processors; }

/* A block kernel with its cut of the outputs; NULL: the plain kernel. */
typedef struct choice {
  const tiled *best;
  hd_cuda_cut cut;
  int64_t blocks;
} choice;

static choice pick(const hd_cuda *cuda, hd_op op, const hd_geom *g, int64_t rows, int64_t shards) {
  choice c = {.cut = cuda_no_matrix()};
  for (size_t i = 0; i < sizeof kernels / sizeof *kernels && cuda->processors > 0; i++) {
    if (kernels[i].op != op)
      continue;
    hd_cuda_cut matrix = kernels[i].matrix(g, rows);
    const int64_t found =
        cuda_cut(&matrix, kernels[i].a_side, kernels[i].b_side, rows) * (matrix.by_shard ? shards : 1);
    if (found == 0 || found > INT32_MAX / HD_CUDA_BLOCK)
      continue;
    c = (choice){&kernels[i], matrix, found};
    if (is_busy(found, cuda->processors))
      break;
  }
  return c;
}

bool hd__exec_cuda_has_blocks(const hd_cuda *cuda, hd_op op, const hd_geom *g, int64_t rows, int64_t shards) {
  return pick(cuda, op, g, rows, shards).best != NULL;
}

static hd_cuda_divisors divisors_of(const hd_geom *g) {
  const bool winograd = hd_geom_is_winograd(g);
  return (hd_cuda_divisors){.ci = cuda_divisor(g->ci),
                            .co = cuda_divisor(g->co),
                            .kw = cuda_divisor(g->window.kw),
                            .sh = cuda_divisor(g->window.sh),
                            .sw = cuda_divisor(g->window.sw),
                            .pool = cuda_divisor(g->conv.pool),
                            .wp = cuda_divisor(g->wp),
                            .wi = cuda_divisor(g->wi),
                            .squared = cuda_divisor(g->conv.pool * g->conv.pool),
                            .windows = cuda_divisor(g->hp * g->wp),
                            .padded = cuda_divisor((g->wi + 2 * g->window.pw) * g->ci),
                            .across = cuda_divisor(winograd ? conv2d_tiles_across(g) : 1),
                            .dx_across = cuda_divisor(winograd ? conv2d_dx_tiles_across(g) : 1)};
}

static hd_status launch_blocks(hd_cuda *cuda, hd_ctx *ctx, int kernel, const hd_cuda_cut *cut, int64_t blocks,
                               const hd_cuda_call *call) {
  hd_cuda_call whole = *call;
  whole.cut = *cut;
  whole.over = divisors_of(&call->g);
  return hd__cuda_launch(cuda, ctx, kernel, blocks * HD_CUDA_BLOCK, 1, &whole);
}

static hd_status launch_plain(hd_cuda *cuda, hd_ctx *ctx, hd_op op, int64_t rows, int64_t shards,
                              const hd_cuda_call *call) {
  return hd__cuda_launch(cuda, ctx, (int)op, counts[op](&call->g), by_row[op] ? rows : shards, call);
}

hd_status hd__exec_cuda_launch(hd_cuda *cuda, hd_ctx *ctx, hd_op op, int64_t rows, int64_t shards,
                               const hd_cuda_call *call) {
  const choice c = pick(cuda, op, &call->g, rows, shards);
  if (!c.best || (op == HD_OP_linear_dw && !call->out[0]))
    return launch_plain(cuda, ctx, op, rows, shards, call);
  if (op != HD_OP_conv2d_dw || call->out[0])
    HD_TRY(launch_blocks(cuda, ctx, c.best->kernel, &c.cut, c.blocks, call));
  if (op != HD_OP_conv2d_dw || !call->out[1] || (c.cut.biased && call->out[0]))
    return HD_OK;
  hd_cuda_cut bias = conv_db_matrix(&call->g, rows);
  const int64_t blocks = cuda_cut(&bias, HD_BLOCK_CHANNELS, 1, rows) * shards;
  if (blocks > 0 && blocks <= INT32_MAX / HD_CUDA_BLOCK)
    return launch_blocks(cuda, ctx, HD_CUDA_conv_db, &bias, blocks, call);
  hd_cuda_call alone = *call;
  alone.out[0] = NULL;
  return launch_plain(cuda, ctx, op, rows, shards, &alone);
}
