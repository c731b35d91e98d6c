/* heddle: a CPU-first multicore neural-network trainer whose results do not depend on how the work is laid out.
 *
 * From simple to expert: heddle/config.h and heddle/session.h train a model from a table of settings;
 * heddle/predict.h uses it; heddle/summary.h estimates its cost; heddle/model.h builds a network, heddle/custom_op.h
 * with the program's custom operations, heddle/custom_loss.h with its losses and metrics; heddle/dataset.h supplies
 * and inspects data sets; heddle/launch.h starts a program as several ranks, heddle/ddp.h lets them share a session,
 * heddle/group.h has collectives and messages between processes; heddle/topology.h describes the machine,
 * heddle/device.h counts and names devices; heddle/status.h defines how every call reports failure.
 *
 * These are the stable core. heddle/experimental.h has what may still change: tensors, pools, loaders; heddle/tools.h,
 * with a library of its own, what measures and watches. */
#ifndef HEDDLE_H
#define HEDDLE_H

#include "heddle/config.h"
#include "heddle/custom_loss.h"
#include "heddle/custom_op.h"
#include "heddle/dataset.h"
#include "heddle/ddp.h"
#include "heddle/device.h"
#include "heddle/dtype.h"
#include "heddle/group.h"
#include "heddle/launch.h"
#include "heddle/model.h"
#include "heddle/options.h"
#include "heddle/predict.h"
#include "heddle/session.h"
#include "heddle/status.h"
#include "heddle/summary.h"
#include "heddle/topology.h"
#include "heddle/version.h"

#endif
