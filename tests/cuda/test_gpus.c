/* The stand-in for the driver shows several GPUs whose memory is apart: a kernel that touches another one's, and a call
 * that is made for another one, are caught. Without that, tests of several GPUs would prove nothing. */
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cuda/cuda.h"
#include "kernel/cuda/cuda_names.h"
#include "tap.h"

static hd_ctx ctx;

static hd_cuda *open_two(void) {
  const int index[2] = {0, 1};
  const char *build = getenv("BUILDDIR");
  char path[1024];
  hd_cuda *all = NULL;
  snprintf(path, sizeof path, "%s/tests/cuda/.libs/driver_stub.so", build ? build : ".");
  setenv("HEDDLE_CUDA_DRIVER", path, 1);
  snprintf(path, sizeof path, "%s/tests/cuda/.libs/module_stub.so", build ? build : ".");
  setenv("HEDDLE_CUDA_MODULE", path, 1);
  setenv("STUB_CUDA_GPUS", "2", 1);
  return hd__cuda_open_all(&all, &ctx, index, 2) == HD_OK ? all : NULL;
}

/* A sum over one shard, from memory of one GPU to that of another, on the first; as a process's exit status. */
static int meet(hd_cuda *all, hd_cuda *of_sums, hd_cuda *of_out) {
  cu_pointer sums, out, step;
  hd_cuda_step host = {.rows = 1, .samples = 1, .fold = {.count = 1, .step = {{.row1 = 1}}}};
  if (hd__cuda_take_for(&sums, of_sums, &ctx, 64, HD_GPU_TABLES) != HD_OK ||
      hd__cuda_take_for(&out, of_out, &ctx, 64, HD_GPU_TABLES) != HD_OK ||
      hd__cuda_take_for(&step, all, &ctx, sizeof host, HD_GPU_TABLES) != HD_OK)
    return 1;
  hd__cuda_use(all);
  all->driver.upload(step, &host, sizeof host, all->compute);
  const hd_cuda_meet meet = {.sums = (const float *)(uintptr_t)sums,
                             .out = (float *)(uintptr_t)out,
                             .count = 1,
                             .step = (const hd_cuda_step *)(uintptr_t)step};
  if (hd__cuda_launch(all, &ctx, HD_CUDA_meet, 1, 1, &meet) != HD_OK ||
      all->driver.stream_wait(all->compute) != CU_DONE)
    return 2;
  return 0;
}

static int status_of_child(hd_cuda *all, hd_cuda *of_sums, hd_cuda *of_out) {
  int status = -1;
  const pid_t child = fork();
  if (child == 0) {
    close(STDERR_FILENO);
    _exit(meet(all, of_sums, of_out));
  }
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int main(void) {
  enum { TOUCHED = 86, OTHER_CONTEXT = 201 };
  hd_cuda *first = open_two(), *second = first ? first->next : NULL;
  cu_pointer memory = 0;
  ok(second != NULL, "two GPUs are opened");
  if (!second)
    return done_testing();
  ok(status_of_child(first, first, first) == 0, "a kernel computes in its GPU's memory");
  ok(status_of_child(first, second, first) == TOUCHED, "a kernel that reads another GPU's memory is caught");
  ok(status_of_child(first, first, second) == TOUCHED, "a kernel that writes another GPU's memory is caught");
  ok(hd__cuda_take_for(&memory, second, &ctx, 64, HD_GPU_TABLES) == HD_OK, "memory is taken");
  hd__cuda_use(first);
  ok(second->driver.stream_wait(second->compute) == OTHER_CONTEXT,
     "a call for another GPU than the one in use is refused");
  ok(first->driver.memory_clear(memory, 0, 64, first->compute) != CU_DONE, "a copy to another GPU's memory is refused");
  hd__cuda_free(second, memory);
  hd__cuda_close(first);
  return done_testing();
}
