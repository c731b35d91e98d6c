/* heddle: a CPU-first multicore neural-network trainer whose results do not depend on how the work is laid out.
 *
 * From simple to expert: heddle/config.h and heddle/session.h train a model from a table of settings; heddle/predict.h
 * uses it; heddle/summary.h tells what it costs; heddle/model.h builds a network, heddle/own_op.h with operations of
 * the program's own; heddle/tensor.h computes with arrays at once; heddle/pool.h maps functions over inputs;
 * heddle/sampler.h orders samples, heddle/dataset.h makes them and looks at them, heddle/loader.h brings them in
 * batches; heddle/launch.h starts a program as several ranks, heddle/ddp.h lets them share a session; heddle/topology.h
 * looks at the machine, heddle/doctor.h at what makes it slow, heddle/monitor.h at what it does just now, heddle/tune.h
 * for the best number of threads, heddle/bench.h for how close to its limits the machine is used; heddle/transform.h
 * makes of samples what a model sees, cropped, turned, normalised; heddle/group.h lets several processes compute
 * together, by broadcasts, sums and messages; heddle/device.h counts and names devices; heddle/status.h says how every
 * call reports failure. */
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
#include "heddle/own_op.h"
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

#ifdef __cplusplus
extern "C" {
#endif

/* The library's version, "MAJOR.MINOR.PATCH". */
HD_API const char *hd_version(void);

#ifdef __cplusplus
}
#endif
#endif
