/* All checks of a plan that can be made after a pass; see check.h. */
#include "plan/check.h"

hd_status hd__check_pass(const hd_plan *plan, hd_ctx *ctx, const char *pass) {
  hd_finding finding = {0};
  const bool is_complete = plan->constants != NULL;
  hd__check_graph(&finding, plan);
  if (!finding.found && is_complete)
    hd__check_memory(&finding, plan);
  if (!finding.found && is_complete)
    hd__check_parts(&finding, plan);
  if (finding.no_memory)
    return hd__fail(ctx, HD_E_NOMEM, "out of memory while checking a plan");
  if (!finding.found)
    return HD_OK;
  return hd__fail(ctx, HD_E_SYSTEM,
                  "the plan of this network is wrong after the pass '%s': %s; nothing was trained: please report the "
                  "model as a bug of heddle",
                  pass, finding.text);
}
