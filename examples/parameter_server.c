/* A parameter server: rank 0 has the weights; the others pull them, compute a gradient on random samples of
 * y = 3 x0 - 2 x1 + 1, and push it, each at its speed.
 *
 * usage: heddle launch -n 3 -- parameter_server [STEPS], or by mpirun */
#include <heddle/experimental.h>
#include <stdio.h>
#include <stdlib.h>

static float weights[3]; /* rank 0's; functions of a rank run one at a time, so they need no lock */
static int pushes;

static hd_status pull(hd_rpc_request *request) {
  request->output = (hd_rpc_array){.data = weights, .dtype = HD_F32, .ndim = 1, .size = {3}};
  return HD_OK;
}

static hd_status push(hd_rpc_request *request) {
  if (request->input.ndim != 1 || request->input.size[0] != 3)
    return hd_ctx_fail(request->ctx, HD_E_SHAPE, "expected a gradient of 3 numbers, found another one");
  for (int i = 0; i < 3; i++)
    weights[i] -= 0.2F * ((const float *)request->input.data)[i];
  pushes++;
  return HD_OK;
}

static hd_status step(hd_rpc *rpc, hd_ctx *ctx) {
  float w[3] = {0}, g[3] = {0};
  hd_rpc_array at = {.data = w, .dtype = HD_F32, .ndim = 1, .size = {3}}, gradient = at;
  gradient.data = g;
  const hd_status status = hd_rpc_call(&at, rpc, ctx, 0, "pull", NULL);
  for (int i = 0; i < 16; i++) {
    const float x0 = (float)rand() / (float)RAND_MAX, x1 = (float)rand() / (float)RAND_MAX;
    const float error = (w[0] * x0 + w[1] * x1 + w[2]) - (3 * x0 - 2 * x1 + 1);
    g[0] += error * x0 / 16, g[1] += error * x1 / 16, g[2] += error / 16;
  }
  return status == HD_OK ? hd_rpc_call(NULL, rpc, ctx, 0, "push", &gradient) : status;
}

int main(int argc, char **argv) {
  const hd_rpc_function functions[] = {{"pull", pull, NULL, HD_U8}, {"push", push, NULL, HD_F32}};
  hd_ctx *ctx = NULL;
  hd_group *group = NULL;
  hd_rpc *rpc = NULL;
  hd_status status = hd_ctx_create(&ctx) || hd_group_init(&group, ctx, NULL) ? HD_E_SYSTEM : HD_OK;
  const int rank = hd_group_rank(group), steps = rank == 0 ? 0 : argc > 1 ? atoi(argv[1]) : 1000;
  if (status == HD_OK)
    status = hd_rpc_open(&rpc, group, ctx, functions, rank == 0 ? 2 : 0, NULL);
  for (int i = 0; status == HD_OK && i < steps; i++)
    status = step(rpc, ctx);
  if (status == HD_OK && (status = hd_rpc_close(rpc, ctx)) == HD_OK && rank == 0) /* serves until all have closed */
    printf("after %d pushes y = %.2f x0 %+.2f x1 %+.2f\n", pushes, weights[0], weights[1], weights[2]);
  if (status != HD_OK)
    fprintf(stderr, "parameter_server: %s\n", hd_ctx_message(ctx));
  hd_rpc_destroy(rpc);
  hd_group_destroy(group);
  hd_ctx_destroy(ctx);
  return status == HD_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
