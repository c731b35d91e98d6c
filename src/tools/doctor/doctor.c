/* heddle doctor: reads the facts that the checks need, runs the checks, collects their findings. */
#include <stdlib.h>

#include "base/alloc.h"
#include "tools/doctor/doctor_checks.h"
#include "platform/placement.h"

static const double EFFORT_S = 0.4;

static const struct {
  const char *name;
  hd_check_fn *check;
} table[] = {
    [HD_CHECK_QUOTA] = {"quota", hd__check_quota},
    [HD_CHECK_OVERSUBSCRIBED] = {"oversubscribed", hd__check_oversubscribed},
    [HD_CHECK_BLAS_CORE] = {"blas-core", hd__check_blas},
    [HD_CHECK_ISA] = {"isa", hd__check_isa},
    [HD_CHECK_SMT_PAIRS] = {"smt-pairs", hd__check_pairs},
    [HD_CHECK_OMP_RUNTIMES] = {"omp-runtimes", hd__check_runtimes},
    [HD_CHECK_BUSY] = {"busy", hd__check_busy},
    [HD_CHECK_STEAL] = {"steal", hd__check_steal},
    [HD_CHECK_THROTTLED] = {"throttled", hd__check_throttled},
    [HD_CHECK_FREQUENCY] = {"frequency", hd__check_frequency},
    [HD_CHECK_HUGE_PAGES] = {"huge-pages", hd__check_huge_pages},
    [HD_CHECK_MEMLOCK] = {"memlock", hd__check_memlock},
    [HD_CHECK_SHM_SIZE] = {"shm-size", hd__check_shm},
};

enum { CHECKS = sizeof table / sizeof *table };
_Static_assert((int)CHECKS <= (int)HD_DOCTOR_MOST, "a report has room for every check");

const char *hd_check_name(hd_check check) { return (unsigned)check < CHECKS ? table[check].name : ""; }

static hd_status read_machine(hd_machine_facts *facts, hd_ctx *ctx) {
  hd_topology *machine;
  char cpuinfo[8192];
  HD_TRY(hd_topology_create(&machine, ctx));
  facts->quota = machine->budget.quota;
  facts->bare = hd__parse_bare(hd__host_text(cpuinfo, sizeof cpuinfo, facts, "/proc/cpuinfo"));
  facts->cpu = hd__calloc((size_t)machine->cpus + 1, sizeof *facts->cpu);
  facts->core = hd__calloc((size_t)machine->cpus + 1, sizeof *facts->core);
  const bool room = facts->cpu && facts->core;
  for (int i = 0; room && i < machine->cpus; i++) {
    if (!machine->cpu[i].usable)
      continue;
    facts->cpu[facts->cpus] = machine->cpu[i].cpu;
    facts->core[facts->cpus++] = machine->cpu[i].core;
  }
  facts->cpus = facts->cpus > 0 ? facts->cpus : 1;
  hd_placement *place = NULL;
  hd_status status =
      room ? hd__placement_create(&place, ctx, machine, &(hd_placement_request){.threads = facts->threads})
           : hd__fail(ctx, HD_E_NOMEM, "out of memory for a list of CPUs");
  if (status == HD_OK)
    facts->threads = place->threads;
  hd_placement_destroy(place);
  hd_topology_destroy(machine);
  return status;
}

static hd_status choose_kernels(hd_machine_facts *facts, hd_ctx *ctx) {
  const char *why = NULL, *isa = getenv("HEDDLE_ISA");
  facts->best = hd__kernels_select(NULL, &why);
  facts->kernels = hd__kernels_select(isa, &why);
  if (facts->kernels)
    return HD_OK;
  return hd__fail(
      ctx, HD_E_UNSUPPORTED,
      "HEDDLE_ISA expects an instruction set that this build and CPU have, found '%s': %s; unset it for the best", isa,
      why);
}

static hd_status measure_effort(hd_machine_facts *facts, hd_ctx *ctx) {
  int threads = facts->threads < facts->cpus ? facts->threads : facts->cpus;
  facts->before = hd__host_losses(facts);
  HD_TRY(hd__work_effort(&facts->effort, ctx, facts->kernels, threads, EFFORT_S));
  facts->after = hd__host_losses(facts);
  return HD_OK;
}

static hd_status run_checks(hd_doctor *d, hd_machine_facts *facts, hd_ctx *ctx, int32_t threads) {
  const char *root = getenv("HEDDLE_SYSROOT");
  facts->root = root ? root : "";
  facts->threads = threads ? threads : ctx->threads;
  HD_TRY(read_machine(facts, ctx));
  HD_TRY(choose_kernels(facts, ctx));
  HD_TRY(measure_effort(facts, ctx));
  d->threads = facts->threads;
  d->cpus = facts->cpus;
  d->isa = facts->kernels->isa;
  for (int i = 0; i < CHECKS; i++) {
    hd_finding *f = &d->finding[d->count];
    *f = (hd_finding){.check = (hd_check)i};
    HD_TRY(table[i].check(f, ctx, facts));
    d->check[d->checks++] = (hd_check)i;
    d->count += f->measured[0] != 0;
  }
  return HD_OK;
}

hd_status hd_doctor_create(hd_doctor **out, hd_ctx *ctx, int32_t threads) {
  hd_machine_facts facts = {0};
  HD_TRY(HD_NEW(*out, 1, ctx, "out of memory for a report"));
  hd_status status = run_checks(*out, &facts, ctx, threads);
  hd__free(facts.cpu);
  hd__free(facts.core);
  return HD_CREATED(status, out, hd_doctor_destroy);
}

void hd_doctor_destroy(hd_doctor *doctor) { hd__free(doctor); }
