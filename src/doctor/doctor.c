/* The doctor: gathers what the checks need, asks each, keeps what they find. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "doctor/patient.h"
#include "heddle/topology.h"

static const double EFFORT_S = 0.4;

/* In the order of what costs users most. */
static const struct {
  const char *id;
  hd_check_fn *check;
} table[] = {
    {"quota", hd__check_quota},
    {"oversubscribed", hd__check_oversubscribed},
    {"blas-core", hd__check_blas},
    {"isa", hd__check_isa},
    {"smt-pairs", hd__check_pairs},
    {"omp-runtimes", hd__check_runtimes},
    {"busy", hd__check_busy},
    {"steal", hd__check_steal},
    {"throttled", hd__check_throttled},
    {"frequency", hd__check_frequency},
    {"huge-pages", hd__check_huge_pages},
    {"memlock", hd__check_memlock},
    {"shm-size", hd__check_shm},
};

enum { CHECKS = sizeof table / sizeof *table };
_Static_assert((int)CHECKS <= (int)HD_DOCTOR_MOST, "a report has room for every check");

static hd_status look_at_machine(hd_patient *p, hd_ctx *ctx) {
  hd_topology *machine;
  char cpuinfo[8192];
  HD_TRY(hd_topology_create(&machine, ctx));
  p->quota = machine->budget.quota;
  p->bare = hd__parse_bare(hd__host_text(cpuinfo, sizeof cpuinfo, p, "/proc/cpuinfo"));
  p->cpu = hd__calloc((size_t)machine->cpus + 1, sizeof *p->cpu);
  p->core = hd__calloc((size_t)machine->cpus + 1, sizeof *p->core);
  const bool room = p->cpu && p->core;
  for (int i = 0; room && i < machine->cpus; i++) {
    if (!machine->cpu[i].usable)
      continue;
    p->cpu[p->cpus] = machine->cpu[i].cpu;
    p->core[p->cpus++] = machine->cpu[i].core;
  }
  p->cpus = p->cpus > 0 ? p->cpus : 1;
  hd_placement *place = NULL;
  hd_status status = room ? hd_placement_create(&place, ctx, machine, &(hd_placement_request){.threads = p->threads})
                          : hd__fail(ctx, HD_E_NOMEM, "out of memory for a list of CPUs");
  if (status == HD_OK)
    p->threads = place->lanes;
  hd_placement_destroy(place);
  hd_topology_destroy(machine);
  return status;
}

static hd_status choose_kernels(hd_patient *p, hd_ctx *ctx) {
  const char *why = NULL, *isa = getenv("HEDDLE_ISA");
  p->best = hd__kernels_select(NULL, &why);
  p->kernels = hd__kernels_select(isa, &why);
  if (p->kernels)
    return HD_OK;
  return hd__fail(
      ctx, HD_E_UNSUPPORTED,
      "HEDDLE_ISA expects an instruction set that this build and CPU have, found '%s': %s; unset it for the best", isa,
      why);
}

static hd_status watch_effort(hd_patient *p, hd_ctx *ctx) {
  int lanes = p->threads < p->cpus ? p->threads : p->cpus;
  p->before = hd__host_losses(p);
  HD_TRY(hd__work_effort(&p->effort, ctx, p->kernels, lanes, EFFORT_S));
  p->after = hd__host_losses(p);
  return HD_OK;
}

static hd_status examine(hd_doctor *d, hd_patient *p, hd_ctx *ctx, int32_t threads) {
  const char *root = getenv("HEDDLE_SYSROOT");
  p->root = root ? root : "";
  p->threads = threads ? threads : ctx->threads;
  HD_TRY(look_at_machine(p, ctx));
  HD_TRY(choose_kernels(p, ctx));
  HD_TRY(watch_effort(p, ctx));
  d->threads = p->threads;
  d->cpus = p->cpus;
  for (int i = 0; i < CHECKS; i++) {
    hd_finding *f = &d->finding[d->count];
    *f = (hd_finding){.id = table[i].id};
    HD_TRY(table[i].check(f, ctx, p));
    d->check[d->checks++] = table[i].id;
    d->count += f->measured[0] != 0;
  }
  return HD_OK;
}

hd_status hd_doctor_create(hd_doctor **out, hd_ctx *ctx, int32_t threads) {
  hd_patient p = {0};
  *out = hd__calloc(1, sizeof **out);
  if (!*out)
    return hd__fail(ctx, HD_E_NOMEM, "out of memory for a report");
  hd_status status = examine(*out, &p, ctx, threads);
  hd__free(p.cpu);
  hd__free(p.core);
  if (status == HD_OK)
    return HD_OK;
  hd_doctor_destroy(*out);
  *out = NULL;
  return status;
}

void hd_doctor_destroy(hd_doctor *doctor) { hd__free(doctor); }
