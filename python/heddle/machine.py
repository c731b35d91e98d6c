"""The machine: its CPUs and those that a run takes, what makes it slow, and how many threads are best."""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Sequence

from . import data as _data
from ._interrupt import stopped_by_ctrl_c
from ._library import Config, Context, UsageError, ffi, lib, record_of, text, tools
from ._options import add_model, check_names, in_python, takes_options

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._option_types import Options

_PLACING = ("threads", "cpus", "placement", "workers")


# ---- Where threads go ----

@dataclass(frozen=True)
class Topology:
    """A machine, and the CPUs that a run takes. CPUs are numbered as the system does it."""

    model: str  # of the processor
    packages: int
    numa_nodes: int
    cores: int
    cpus: int
    memory_bytes: int
    budget: int  # CPUs that this process may keep busy,
    budget_why: str  # and what limits them
    usable: list[int]  # CPUs that it may use
    threads: list[int | None]  # the CPU of each thread; None: not bound to one
    threads_why: str
    workers: list[int | None] = field(repr=False)


@takes_options(*_PLACING)
def topo(**options: Any) -> Topology:
    """The machine as this process sees it, what it may use of it, and where a run's threads go.

    >>> import heddle
    >>> len(heddle.topo(threads=1).threads)
    1
    """
    check_names(options, _PLACING, "heddle.topo")
    context = Context()
    config = Config(context, options)
    machine = context.make("hd_topology", lib.hd_topology_create)
    try:
        out = ffi.new("hd_placement **")
        context.check(lib.hd_config_place(out, context.pointer, config.pointer, machine))
        try:
            place, budget = out[0], machine.budget
            own = {name: getattr(machine, name) for name in ("packages", "numa_nodes", "cores", "cpus",
                                                             "memory_bytes")}
            return Topology(model=text(machine.model), **own, budget=budget.cpus,
                            budget_why=in_python(text(budget.why)),
                            usable=sorted(c.cpu for c in machine.cpu[0:machine.cpus] if c.usable),
                            threads=_bound(place.thread, place.threads), threads_why=in_python(text(place.why)),
                            workers=_bound(place.worker, place.workers))
        finally:
            lib.hd_placement_destroy(out[0])
    finally:
        lib.hd_topology_destroy(machine)


def _bound(binding: Any, count: int) -> list[int | None]:
    return [None if binding[i].cpu < 0 else binding[i].cpu for i in range(count)]


# ---- What makes it slow ----

@dataclass(frozen=True)
class Finding:
    """Something that slows down training."""

    id: str  # "quota", "blas-core", ...
    factor: float  # the speed-up without it; NaN where it cannot be measured
    measured: str
    remedy: str


class Findings(list):
    """The findings of heddle.doctor; none where nothing slows this machine down."""

    def __init__(self, findings: Sequence[Finding], checks: Sequence[str], isa: str) -> None:
        super().__init__(findings)
        self.checks, self.isa = list(checks), isa

    def __repr__(self) -> str:
        head = f"{len(self.checks)} checks with kernels for {self.isa}: {', '.join(self.checks)}"
        lines = [f"{f.id}" + (f" ({f.factor:.2f} times)" if f.factor == f.factor else "")
                 + f"\n  found:  {f.measured}\n  remedy: {f.remedy}" for f in self]
        return "\n".join([head, *(lines or ["nothing found"])])


@takes_options("threads")
def doctor(**options: Any) -> Findings:
    """Measures for some seconds what slows down training on this machine, in this process; a list of findings."""
    check_names(options, ("threads",), "heddle.doctor")
    context = Context()
    config = Config(context, options)
    threads = lib.hd_config_get_int(config.pointer, lib.HD_OPT_THREADS)
    found = context.make("hd_doctor", tools().hd_doctor_create, threads)
    try:
        findings = [Finding(text(tools().hd_check_name(f.check)), f.factor, in_python(text(f.measured)),
                            in_python(text(f.remedy)))
                    for f in found.finding[0:found.count]]
        checks = [text(tools().hd_check_name(check)) for check in found.check[0:found.checks]]
        return Findings(findings, checks, text(found.isa))
    finally:
        tools().hd_doctor_destroy(found)


# ---- How many threads are best ----

@dataclass(frozen=True)
class TuneSetting:
    """A number of threads, their placement, and what they did: samples per second with a 95 % interval."""

    threads: int
    workers: int
    placement: str  # "cpus" for a list of CPUs
    turns: int  # how often it was measured
    samples_per_s: float
    low: float
    high: float
    speedup: float  # against one thread
    efficiency: float  # speed-up per thread


@dataclass(frozen=True)
class Tuning:
    """The results of heddle.tune."""

    model: str
    data: str
    batch: int
    isa: str
    cpu: str
    cpus: int
    settings: list[TuneSetting] = field(repr=False)
    best: TuneSetting
    amdahl: float  # the share of the work that does not run in parallel
    contention: float
    coherence: float
    predicted_best: float  # threads; infinite: without a limit
    proof_steps: int  # that every setting trained before, to one digest
    weights_sha256: str
    load: float  # CPUs that other processes kept busy meanwhile; NaN: unknown
    saved: bool  # whether threads="auto" uses the best from now on


_VARIED = {"threads": 1, "placement": 2, "workers": 4}


def _setting(s: Any) -> TuneSetting:
    numbers = record_of(s)
    placement = "cpus" if s.placement < 0 else text(lib.hd_choice_name(lib.HD_OPT_PLACEMENT, s.placement))
    del numbers["same"]
    return TuneSetting(**{**numbers, "placement": placement})


@takes_options()
def tune(model: Any = None, data: Any = None, *, seconds: float = 15.0, sweep: str | Sequence[str] | None = None,
         config: Any = None, **options: Unpack[Options]) -> Tuning:
    """Measures how many threads train a model fastest on this machine, and where; threads="auto" then uses the best.

    `seconds`: how long to measure. `sweep`: what is varied, "threads", "placement", "workers" or several; by default
    threads and placement. Model, data and options are those of heddle.train.
    """
    check_names(options, of="heddle.tune")
    varied = [sweep] if isinstance(sweep, str) else list(sweep or [])
    for name in varied:
        if name not in _VARIED:
            raise UsageError(f"sweep= expects threads, placement, workers, or several of them, found {name!r}")
    context = Context()
    data = _data.add(context, _data.join_heads(data, model))
    given = {**add_model(model, {**options, "config": config}), "data": data}
    configured = Config(context, given)
    stop: list[bool] = []
    progress = ffi.callback("int(void *, double, double)", lambda *_: int(bool(stop)))
    request = ffi.new("hd_tune_request *", {"seconds": seconds, "sweep": sum(_VARIED[name] for name in set(varied)),
                                            "progress": progress})
    request.struct_bytes = ffi.sizeof("hd_tune_request")
    out = ffi.new("hd_tune *")
    out.struct_bytes = ffi.sizeof("hd_tune")
    with stopped_by_ctrl_c(lambda: stop.append(True)):
        context.check(tools().hd_tune_run(out, context.pointer, configured.pointer, request))
    if stop:
        raise KeyboardInterrupt
    found = record_of(out)
    settings = [_setting(out.settings[i]) for i in range(out.count)]
    saved = not out.busy and (not varied or "threads" in varied) and not configured.get("cpus")
    for name in ("count", "seconds", "busy"):
        del found[name]
    return Tuning(**{**found, "settings": settings, "best": settings[out.best], "saved": saved})
