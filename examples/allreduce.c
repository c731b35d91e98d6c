/* A mean over processes: each rank has some numbers, all ranks get the mean of all of them, then the ranks pass on a
 * token.
 *
 * usage: heddle launch -n 4 -- allreduce [COUNT], or by torchrun, mpirun or srun */
#include <heddle.h>
#include <stdio.h>
#include <stdlib.h>

static hd_status pass_token(int *token, hd_group *group, hd_ctx *ctx) {
  const int rank = hd_group_rank(group), size = hd_group_size(group);
  hd_status status = HD_OK;
  if (size == 1)
    return HD_OK;
  if (rank > 0)
    status = hd_group_recv(token, group, ctx, 1, HD_I32, rank - 1);
  *token += rank;
  if (status == HD_OK)
    status = hd_group_send(group, ctx, token, 1, HD_I32, (rank + 1) % size);
  if (status == HD_OK && rank == 0)
    status = hd_group_recv(token, group, ctx, 1, HD_I32, size - 1);
  return status;
}

int main(int argc, char **argv) {
  const int count = argc > 1 ? atoi(argv[1]) : 1000;
  double *x = calloc((size_t)count + 1, sizeof *x), sum = 0;
  int token = 0;
  hd_ctx *ctx = NULL;
  hd_group *group = NULL;
  hd_status status = hd_ctx_create(&ctx);
  if (status == HD_OK)
    status = hd_group_init(&group, ctx, NULL);
  const int rank = hd_group_rank(group), size = hd_group_size(group);
  for (int i = 0; x && i < count; i++)
    x[i] = rank * count + i;

  if (status == HD_OK && x)
    status = hd_group_all_reduce(x, group, ctx, x, count, HD_F64, HD_REDUCE_AVG);
  if (status == HD_OK)
    status = pass_token(&token, group, ctx);

  for (int i = 0; x && i < count; i++)
    sum += x[i];
  if (status != HD_OK)
    fprintf(stderr, "allreduce: %s\n", hd_ctx_message(ctx));
  else if (rank == 0)
    printf("the mean of %d numbers on %d ranks is %g, the token says %d\n", size * count, size, sum / count, token);
  hd_group_destroy(group);
  hd_ctx_destroy(ctx);
  free(x);
  return status == HD_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
