/* The passes that compile a graph to a plan; each can be printed.
 *
 *     evaluation -> fuse -> shift -> gradients -> weigh -> stages -> segments -> recompute -> groups -> needed ->
 *     matrices -> memory -> cut edges -> chunks -> lower */
#pragma once

#include "graph/graph.h"
#include "plan/plan.h"

void hd__pass_evaluation(hd_graph *graph);      /* without training: training-only operations become views */
void hd__pass_fuse(hd_graph *graph, bool relu); /* relu: the ReLUs too that need not be fused */
bool hd__pass_shift(hd_graph *graph, float shift);
hd_status hd__pass_batch_statistics(hd_graph *graph, hd_ctx *ctx);
hd_status hd__pass_grad(hd_graph *graph, hd_ctx *ctx);
hd_status hd__pass_weigh(hd_graph *graph, hd_ctx *ctx);
hd_status hd__pass_stages(hd_plan *plan, hd_ctx *ctx, const hd_plan_settings *settings);
void hd__pass_segments(hd_plan *plan, const hd_plan_settings *settings);
hd_status hd__pass_recompute(hd_plan *plan, hd_ctx *ctx);
hd_status hd__pass_groups(hd_plan *plan, hd_ctx *ctx, const hd_plan_settings *settings);
hd_status hd__pass_needed(hd_plan *plan, hd_ctx *ctx, const hd_plan_settings *settings);
hd_status hd__pass_matrices(hd_plan *plan, hd_ctx *ctx, const hd_plan_settings *settings);
int hd__plan_matrix_rounds(const hd_plan *plan);
hd_status hd__pass_memory(hd_plan *plan, hd_ctx *ctx, const hd_plan_settings *settings);
bool hd__plan_defers(const hd_plan *plan, const hd_node *node); /* its gradients are formed after all segments */
hd_status hd__pass_cut_edges(hd_plan *plan, hd_ctx *ctx, const hd_plan_settings *settings);
hd_status hd__pass_chunks(hd_plan *plan, hd_ctx *ctx, const hd_plan_settings *settings);
