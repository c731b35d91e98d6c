"""JAX as a peer: see peer_work.py. usage: jax_worker.py FOLDER_OF_MNIST THREADS

A step is one compiled function whose weights are donated; "pass" compiles many steps into one loop. XLA makes as many
threads as the process may use CPUs when it starts, so the affinity is set first.
"""
import math
import os
import sys
import time

FOLDER, THREADS = sys.argv[1], int(sys.argv[2])
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:THREADS])

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

from peer_work import MODELS, RECIPE, images, is_convolutional, serve  # noqa: E402

STEPS_A_PASS = 100
state = {"programs": {}}


def first_weights(model, seed):
    """(weight, bias) of each layer that has them, uniform in 1/sqrt(fan-in) as PyTorch draws them."""
    draw, out = np.random.default_rng(seed), []
    for kind, *sizes in MODELS[model]:
        if kind not in ("conv", "linear"):
            continue
        shape = (sizes[2], sizes[2], sizes[0], sizes[1]) if kind == "conv" else (sizes[0], sizes[1])
        bound = 1 / math.sqrt(math.prod(shape[:-1]))
        out.append(tuple(jnp.asarray(draw.uniform(-bound, bound, s), jnp.float32) for s in (shape, shape[-1:])))
    return out


def shrink(x, side, layout, pooling):
    """Max pooling; rows and columns that fill no window are dropped."""
    axis = layout.index("H")
    if pooling == "window":
        window = tuple(side if layout[d] in "HW" else 1 for d in range(4))
        return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, window, window, "VALID")
    for a in (axis, axis + 1):
        x = jax.lax.slice_in_dim(x, 0, x.shape[a] // side * side, axis=a)
        x = x.reshape(x.shape[:a] + (x.shape[a] // side, side) + x.shape[a + 1:]).max(a + 1)
    return x


def scores(weights, x, model, layout, pooling):
    x, weights = x[..., None] if layout == "NHWC" else x[:, None], iter(weights)
    for kind, *sizes in MODELS[model]:
        if kind == "conv":
            w, b = next(weights)
            x = jax.lax.conv_general_dilated(x, w, (1, 1), "VALID", dimension_numbers=(layout, "HWIO", layout))
            x = x + (b if layout == "NHWC" else b[:, None, None])
        elif kind == "linear":
            w, b = next(weights)
            x = x @ w + b
        elif kind == "pool":
            x = shrink(x, sizes[0], layout, pooling)
        elif kind == "relu":
            x = jnp.maximum(x, 0)
        else:
            x = x.reshape(len(x), -1)
    return x


def mean_loss(weights, x, y, *how):
    logs = jax.nn.log_softmax(scores(weights, x, *how))
    return -jnp.take_along_axis(logs, y[:, None], axis=1).mean()


def sgd_step(weights, x, y, *how):
    return jax.tree_util.tree_map(lambda w, g: w - 0.01 * g, weights, jax.grad(mean_loss)(weights, x, y, *how))


def open_model(model, batch, precision):
    if precision != "f32":
        raise ValueError("only its float32 is compared, not " + precision)
    x, y = images(FOLDER, "train")
    state.update(model=model, batch=batch, x=jnp.asarray(x), y=jnp.asarray(y.astype(np.int32)), programs={})
    if not is_convolutional(model):
        return {"settings": ["step/NCHW/none", "pass/NCHW/none"]}
    names = ["step/%s/%s" % (layout, pooling) for layout in ("NHWC", "NCHW") for pooling in ("window", "max")]
    return {"settings": names}


def program(setting):
    """A function of (weights, places of samples [steps, batch], x, y)."""
    unit, layout, pooling = setting.split("/")
    how = (state["model"], layout, pooling)

    def one(weights, places, x, y):
        return sgd_step(weights, x[places], y[places], *how)

    def whole(weights, places, x, y):
        return jax.lax.scan(lambda w, p: (one(w, p, x, y), None), weights, places)[0]
    if unit == "pass":
        return jax.jit(whole, donate_argnums=0)
    compiled = jax.jit(one, donate_argnums=0)

    def steps(weights, places, x, y):
        for p in places:
            weights = compiled(weights, p, x, y)
        return weights
    return steps


def rate(setting, seconds):
    run, batch, done = state["programs"].get(setting), state["batch"], 0
    if run is None:
        run = state["programs"][setting] = program(setting)
    weights, x, y = first_weights(state["model"], 0), state["x"], state["y"]
    order = np.random.default_rng(1).permutation(len(y))[:STEPS_A_PASS * batch].astype(np.int32)
    order = order.reshape(STEPS_A_PASS, batch)
    steps = order if setting.startswith("pass") else order[:3]
    weights = jax.block_until_ready(run(weights, steps, x, y))
    steps = order if setting.startswith("pass") else order[:20]
    start = time.perf_counter()
    while time.perf_counter() < start + seconds:
        weights = jax.block_until_ready(run(weights, steps, x, y))
        done += steps.size
    return {"samples_per_s": done / (time.perf_counter() - start)}


def one_cycle(step):
    """lr and beta1 of PyTorch's OneCycleLR with its defaults: 30 % up, then down, both as half cosines."""
    top, last = RECIPE["lr"], RECIPE["steps"] - 1
    peak = 0.3 * RECIPE["steps"] - 1
    up = step <= peak
    share = step / peak if up else (step - peak) / (last - peak)
    mix = (1 + math.cos(math.pi * share)) / 2
    lr = (top / 25 - top) * mix + top if up else (top - top / 25e4) * mix + top / 25e4
    beta = (0.95 - 0.85) * mix + 0.85 if up else (0.85 - 0.95) * mix + 0.95
    return np.float32(lr), np.float32(beta)


def adam_step(carry, x, y, lr, beta, *how):
    weights, m, v, t = carry
    grads, t = jax.grad(mean_loss)(weights, x, y, *how), t + 1
    tree = jax.tree_util.tree_map
    m = tree(lambda a, g: beta * a + (1 - beta) * g, m, grads)
    v = tree(lambda a, g: 0.9 * a + 0.1 * g * g, v, grads)
    scale, root = lr / (1 - beta ** t), jnp.sqrt(1 - 0.9 ** t)
    return tree(lambda w, a, b: w - scale * a / (jnp.sqrt(b) / root + 1e-8), weights, m, v), m, v, t


def recipe(setting, seed):
    _, layout, pooling = setting.split("/")
    how, batch, x, y = (state["model"], layout, pooling), RECIPE["batch"], state["x"], state["y"]

    def step(carry, start, size, x, y, lr, beta):
        return adam_step(carry, jax.lax.dynamic_slice_in_dim(x, start, size),
                         jax.lax.dynamic_slice_in_dim(y, start, size),
                         lr, beta, *how)
    run = jax.jit(step, static_argnums=2, donate_argnums=0)

    def fresh():
        weights = first_weights(state["model"], seed)
        zeros = jax.tree_util.tree_map(jnp.zeros_like, weights)
        return weights, zeros, jax.tree_util.tree_map(jnp.zeros_like, weights), jnp.float32(0)
    sizes = [min(batch, len(y) - at) for at in range(0, len(y), batch)]
    for size in {sizes[0], sizes[-1]}:
        jax.block_until_ready(run(fresh(), 0, size, x, y, *one_cycle(0)))
    plan, carry = [one_cycle(i) for i in range(len(sizes))], fresh()
    start = time.perf_counter()
    for i, size in enumerate(sizes):
        carry = run(carry, i * batch, size, x, y, *plan[i])
    jax.block_until_ready(carry)
    seconds = time.perf_counter() - start
    xt, yt = images(FOLDER, "t10k")
    guess = jax.jit(lambda w, x: scores(w, x, *how).argmax(1))(carry[0], jnp.asarray(xt))
    return {"train_s": seconds, "accuracy": float((np.asarray(guess) == yt).mean())}


serve("JAX " + jax.__version__, {"open": open_model, "rate": rate, "recipe": recipe})
