/* heddle: a CPU-first multicore neural-network trainer whose results do not depend on how the work is laid out.
 *
 * From simple to expert: heddle/config.h and heddle/session.h train a model from a table of settings;
 * heddle/predict.h uses it; heddle/summary.h estimates its cost; heddle/model.h builds a network, heddle/custom_op.h
 * with the program's custom operations; heddle/tensor.h computes with arrays at once; heddle/pool.h maps functions
 * over inputs; heddle/sampler.h orders samples, heddle/dataset.h supplies and inspects data sets, heddle/loader.h
 * delivers batches; heddle/launch.h starts a program as several ranks, heddle/ddp.h lets them share a session;
 * heddle/topology.h describes the machine, heddle/doctor.h finds what makes it slow, heddle/monitor.h shows its
 * current load, heddle/tune.h finds the best number of threads, heddle/bench.h compares speeds with the machine's
 * limits; heddle/transform.h crops, rotates and normalises samples; heddle/group.h has collectives and messages
 * between processes; heddle/device.h counts and names devices; heddle/status.h defines how every call reports
 * failure. */
#ifndef HEDDLE_H
#define HEDDLE_H

#include "heddle/bench.h"
#include "heddle/config.h"
#include "heddle/dataset.h"
#include "heddle/ddp.h"
#include "heddle/device.h"
#include "heddle/doctor.h"
#include "heddle/group.h"
#include "heddle/launch.h"
#include "heddle/loader.h"
#include "heddle/model.h"
#include "heddle/monitor.h"
#include "heddle/custom_op.h"
#include "heddle/pool.h"
#include "heddle/predict.h"
#include "heddle/sampler.h"
#include "heddle/session.h"
#include "heddle/status.h"
#include "heddle/summary.h"
#include "heddle/tensor.h"
#include "heddle/topology.h"
#include "heddle/transform.h"
#include "heddle/tune.h"

#endif
