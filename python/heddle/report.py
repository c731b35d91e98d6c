"""What a notebook shows of a run: a progress bar while it trains; curves and the confusion matrix after.

Pictures are SVG inside of HTML and load nothing. In a terminal the bar is a line on standard error.
"""
from __future__ import annotations

import contextlib
import html
import sys
import time
from typing import Any, Callable, Iterator

import numpy as np

REFRESH_S = 0.2
WIDTH, HEIGHT, MARGIN = 360, 180, 42
POINTS = 200  # of a curve: means of as many segments
INK, GREY = "#1f5fa8", "#888"


# ---- Progress ----

def _in_notebook() -> bool:
    python = sys.modules.get("IPython")
    shell = python.get_ipython() if python else None
    return shell is not None and "IPKernelApp" in shell.config


@contextlib.contextmanager
def progress(session: Any, show: bool | None) -> Iterator[list[Callable[[Any], None]]]:
    """Callbacks that show a session's progress; none where nothing is to be shown."""
    notebook = _in_notebook()
    if not (notebook if show is None else show):
        yield []
        return
    bar = (_NotebookBar if notebook else _TerminalBar)(session.report["steps_in_all"])
    try:
        yield [bar.see]
    finally:
        bar.end()


class _TerminalBar:
    def __init__(self, steps: int) -> None:
        self.steps, self.shown_at, self.last, self.speed = steps, 0.0, None, ""

    def see(self, event: Any) -> None:
        if event.kind == "log":
            self.speed = f", {event.samples_per_s:,.0f} samples/s"
        if event.kind != "step":
            return
        self.last = event
        now = time.monotonic()
        if now - self.shown_at >= REFRESH_S:
            self.shown_at = now
            self.show(event)

    def line(self, event: Any) -> str:
        return f"step {event.step:,} of {self.steps:,}, epoch {event.epoch + 1}, loss {event.loss:.4f}{self.speed}"

    def show(self, event: Any) -> None:
        sys.stderr.write(f"\r{self.line(event)}\x1b[K")
        sys.stderr.flush()

    def end(self) -> None:
        if self.last:
            self.show(self.last)
            sys.stderr.write("\n")


class _NotebookBar(_TerminalBar):
    def __init__(self, steps: int) -> None:
        from IPython.display import HTML, display

        super().__init__(steps)
        self.html = HTML
        self.handle = display(HTML("<progress></progress>"), display_id=True)

    def show(self, event: Any) -> None:
        self.handle.update(self.html(f'<progress value="{event.step}" max="{self.steps}" style="width:{WIDTH}px">'
                                     f"</progress> {self.line(event)}"))

    def end(self) -> None:
        if self.last:
            self.show(self.last)


# ---- Report ----

class Report:
    """A run's results: HTML in a notebook, lines of text elsewhere."""

    def __init__(self, run: Any) -> None:
        self.run = run

    def __repr__(self) -> str:
        history = self.run.history
        ends = [f"{key} {values[-1]:.4f}" for key, values in history.items() if key != "step" and len(values)]
        return "\n".join([f"{self.run.folder}: {len(self.run.losses)} steps", *ends,
                          f"weights_sha256 {self.run.digest}"])

    def _repr_html_(self) -> str:
        run, history = self.run, self.run.history
        curves = [_curve("loss of a step", *run.numbers("loss"))]
        for key in ("test_loss", "test_accuracy", "val_loss", "val_accuracy"):
            steps, values = run.numbers(key)
            if len(values) > 1:
                curves.append(_curve(key.replace("_", " "), steps, values))
        _, cells = run.numbers("confusion")
        if len(cells):
            curves.append(_confusion(cells))
        ends = ", ".join(f"{key.replace('_', ' ')} {values[-1]:.4f}" for key, values in history.items()
                         if key != "step" and len(values))
        return (f"<div><p><b>{html.escape(str(run.folder))}</b>: {len(run.losses):,} steps; {ends}<br>"
                f"<code>weights_sha256 {run.digest}</code></p>{''.join(curves)}</div>")


def _svg(title: str, content: str, height: int = HEIGHT) -> str:
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" '
            f'role="img" aria-label="{title}" style="background:#fff;margin:4px;vertical-align:top" '
            f'font-family="sans-serif" '
            f'font-size="11"><text x="{MARGIN}" y="14" fill="#222">{title}</text>{content}</svg>')


def _thinned(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    def means(values: np.ndarray) -> np.ndarray:
        return np.array([part.mean() for part in np.array_split(values, min(POINTS, len(values)))])

    return means(x), means(y)


def _curve(title: str, steps: np.ndarray, values: np.ndarray) -> str:
    if not len(values):
        return ""
    last = float(steps[-1])
    steps, values = _thinned(steps, values)
    low, high = float(values.min()), float(values.max())
    span = (high - low) or 1.0
    across = MARGIN + steps / last * (WIDTH - MARGIN - 10)
    up = HEIGHT - 24 - (values - low) / span * (HEIGHT - 54)
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(across, up))
    frame = f"M{MARGIN},24 V{HEIGHT - 20} H{WIDTH - 10}"
    return _svg(title, f'<path d="{frame}" fill="none" stroke="{GREY}"/>'
                f'<polyline points="{points}" fill="none" stroke="{INK}" stroke-width="1.5"/>'
                f'<text x="{MARGIN - 4}" y="34" text-anchor="end" fill="{GREY}">{high:.3f}</text>'
                f'<text x="{MARGIN - 4}" y="{HEIGHT - 22}" text-anchor="end" fill="{GREY}">{low:.3f}</text>'
                f'<text x="{WIDTH - 10}" y="{HEIGHT - 6}" text-anchor="end" fill="{GREY}">step {last:,.0f}</text>')


def _confusion(cells: np.ndarray) -> str:
    """A square for each label (row) and guess (column), the darker the larger its share of the row."""
    classes = int(round(len(cells) ** 0.5))
    table = cells.reshape(classes, classes)
    shares = table / np.maximum(table.sum(1, keepdims=True), 1)
    side = (WIDTH - MARGIN - 10) / classes
    marks = []
    for row, column in np.ndindex(classes, classes):
        share, x, y = shares[row, column], MARGIN + column * side, 24 + row * side
        colour = "31,95,168" if row == column else "190,60,30"
        marks.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{side:.1f}" height="{side:.1f}" '
                     f'fill="rgba({colour},{share ** 0.5:.2f})"><title>label {row}, guess {column}: '
                     f"{table[row, column]:.0f}</title></rect>")
        if classes <= 12 and table[row, column]:
            marks.append(f'<text x="{x + side / 2:.1f}" y="{y + side / 2 + 4:.1f}" text-anchor="middle" '
                         f'fill="{"#fff" if share > 0.3 else "#222"}">{table[row, column]:.0f}</text>')
    if classes <= 12:
        marks += [f'<text x="{MARGIN - 6}" y="{24 + (c + 0.5) * side + 4:.1f}" text-anchor="end" fill="{GREY}">{c}'
                  f'</text><text x="{MARGIN + (c + 0.5) * side:.1f}" y="{WIDTH - MARGIN + 30}" text-anchor="middle" '
                  f'fill="{GREY}">{c}</text>' for c in range(classes)]
    return _svg("labels (rows) and guesses (columns) on the test set", "".join(marks), WIDTH - MARGIN + 38)
