/* The part of libheddle that may still change, and the core.
 *
 * heddle/tensor.h computes with arrays at once; heddle/pool.h maps functions over inputs, on threads or in
 * processes; heddle/rpc.h calls functions of other ranks; heddle/sampler.h orders samples, heddle/transform.h crops,
 * rotates and normalises them, heddle/loader.h delivers batches; heddle/evidence.h lists, certifies and verifies
 * runs; heddle/export.h writes networks for other programs, heddle/generate.h text. */
#ifndef HEDDLE_EXPERIMENTAL_H
#define HEDDLE_EXPERIMENTAL_H

#include "heddle.h"
#include "heddle/evidence.h"
#include "heddle/export.h"
#include "heddle/generate.h"
#include "heddle/loader.h"
#include "heddle/pool.h"
#include "heddle/rpc.h"
#include "heddle/sampler.h"
#include "heddle/tensor.h"
#include "heddle/transform.h"

#endif
