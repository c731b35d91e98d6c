/* The settings of optimizers and schedules, one row each, and nowhere else:
 *
 *   HD_ROW_NAME  TYPE, "default", min, max, choices or NULL, "ARG", "help"
 *
 * with the types of options.def, which gives each row its place among the options; rules for parameters
 * (graph/param_rules.h) have the same. A rule of an optimizer may have another default. Help names no optimizer and no
 * schedule: train/settings/option_help.c adds those that take a setting, and their defaults. */
#pragma once

#define HD_CHOICES(...) ((const char *const[]){__VA_ARGS__, NULL})

#define HD_ROW_optimizer CHOICE, "adamw", 0, 0, hd__optimizer_names, "O", "the optimizer"
#define HD_ROW_lr REAL, "0.001", 0, 1e6, NULL, "X", "learning rate"
#define HD_ROW_momentum REAL, "0", 0, 1, NULL, "X", "momentum"
#define HD_ROW_nesterov FLAG, "", 0, 0, NULL, NULL, "use Nesterov momentum (default: off)"
#define HD_ROW_betas PAIR, "0.9,0.999", 0, 1, NULL, "B1,B2", "decay rates of the two moments, each from 0 to below 1"
#define HD_ROW_eps REAL, "1e-8", 0, 1, NULL, "X", "added to the denominator"
#define HD_ROW_weight_decay REAL, "", 0, 1e6, NULL, "X", "weight decay"
#define HD_ROW_ns_steps INT, "5", 1, 99, NULL, "N", "iterations of Newton-Schulz"
#define HD_ROW_normalize_weight                                                                                        \
  FLAG, "", 0, 0, NULL, NULL, "scale each weight to norm sqrt(rows) before its update (default: off)"
#define HD_ROW_adjust_lr                                                                                               \
  CHOICE, "none", 0, 0, HD_CHOICES("none", "original", "match_rms_adamw"), "A",                                        \
      "adapt the learning rate to the shape of each weight"
#define HD_ROW_alpha REAL, "0.99", 0, 1, NULL, "X", "decay rate of the mean of squares"
#define HD_ROW_centered FLAG, "", 0, 0, NULL, NULL, "divide by the standard deviation of the gradient (default: off)"
#define HD_ROW_momentum_decay REAL, "0.004", 0, 1000, NULL, "X", "how fast the momentum grows to the first of --betas"
#define HD_ROW_decoupled_weight_decay                                                                                  \
  FLAG, "", 0, 0, NULL, NULL, "multiply the weights by the decay, as adamw does (default: off)"
#define HD_ROW_schedule CHOICE, "const", 0, 0, hd__schedule_names, "S", "learning-rate schedule"
#define HD_ROW_step_size                                                                                               \
  INT, "", 1, 1000000, NULL, "EPOCHS", "epochs between two multiplications by --gamma; must be given"
#define HD_ROW_gamma REAL, "0.1", 0, 10, NULL, "X", "factor of the learning rate"
#define HD_ROW_warmup INT, "0", 0, 1e15, NULL, "STEPS", "linear warm-up over N steps"
#define HD_ROW_start_factor REAL, "0", 0, 1, NULL, "X", "fraction of the learning rate at the start"
#define HD_ROW_end_factor REAL, "0", 0, 1, NULL, "X", "fraction of the learning rate at the end"
#define HD_ROW_peak REAL, "0.5", 0, 1, NULL, "F", "fraction of the steps in which the rate rises to its maximum"
#define HD_ROW_epochs                                                                                                  \
  REAL, "3", 1e-6, 1000000, NULL, "X", "passes over the training set; may be a fraction, such as 0.5"

/* All rows, in the order in which rules for parameters are written. */
#define HD_SETTING_ROWS(ROW)                                                                                           \
  ROW(optimizer)                                                                                                       \
  ROW(lr)                                                                                                              \
  ROW(momentum)                                                                                                        \
  ROW(nesterov)                                                                                                        \
  ROW(betas)                                                                                                           \
  ROW(eps)                                                                                                             \
  ROW(weight_decay)                                                                                                    \
  ROW(ns_steps)                                                                                                        \
  ROW(normalize_weight)                                                                                                \
  ROW(adjust_lr)                                                                                                       \
  ROW(alpha)                                                                                                           \
  ROW(centered)                                                                                                        \
  ROW(momentum_decay)                                                                                                  \
  ROW(decoupled_weight_decay)                                                                                          \
  ROW(schedule)                                                                                                        \
  ROW(step_size)                                                                                                       \
  ROW(gamma)                                                                                                           \
  ROW(warmup)                                                                                                          \
  ROW(start_factor)                                                                                                    \
  ROW(end_factor)                                                                                                      \
  ROW(peak)                                                                                                            \
  ROW(epochs)
