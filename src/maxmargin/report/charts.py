"""Pictures as SVG text: colours come from the page's style, so that they follow light and dark."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

import numpy as np

__all__ = ["gauge", "histogram", "lines", "scatter"]

WIDTH, HEIGHT = 480, 260  # of the drawing; the page stretches it
LEFT, RIGHT, TOP, BOTTOM = 68, 14, 16, 44
LEAST_GAP = 1e-16  # relative: rounding


def _svg(body: Sequence[str], title: str, height: int = HEIGHT) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(title)}"><title>{escape(title)}</title>'
        + "".join(body)
        + "</svg>"
    )


def _text(x: float, y: float, text: str, anchor: str = "middle", more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}>{escape(text)}</text>'


def short(value: float) -> str:
    """A number for an axis."""
    return f"{value:.3g}".replace("e-0", "e-").replace("e+0", "e")


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round numbers between two."""
    if not high > low:
        return [low]
    rough = (high - low) / most
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(m * size for m in (1, 2, 5, 10) if m * size >= rough)
    return [k * step for k in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """Round numbers between two powers of ten: powers, or more where there are few of them."""
    step = max(1, math.ceil((high - low) / 6))
    powers = [10.0**d for d in range(math.ceil(low - 1e-9), math.floor(high + 1e-9) + 1, step)]
    if len(powers) > 2:
        return powers
    finer = [m * 10.0**d for d in range(math.floor(low), math.ceil(high) + 1) for m in (1, 2, 5)]
    finer = [value for value in finer if low - 1e-9 <= math.log10(value) <= high + 1e-9]
    return finer if len(finer) > 1 else [10.0**low, 10.0**high]


class Axes:
    """A frame with round numbers along it; a logarithmic axis has powers of ten."""

    def __init__(
        self, x: tuple[float, float], y: tuple[float, float], x_log: bool = False, y_log: bool = False
    ) -> None:
        self.x_log, self.y_log = x_log, y_log
        self.x0, self.x1 = self._wide(x, x_log)
        self.y0, self.y1 = self._wide(y, y_log)

    @staticmethod
    def _wide(ends: tuple[float, float], log: bool) -> tuple[float, float]:
        low, high = (math.log10(ends[0]), math.log10(ends[1])) if log else ends
        return (low, high) if high > low else (low - 0.5, high + 0.5)

    def x(self, value: float) -> float:
        value = math.log10(value) if self.x_log else value
        return LEFT + (value - self.x0) / (self.x1 - self.x0) * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        value = math.log10(value) if self.y_log else value
        return HEIGHT - BOTTOM - (value - self.y0) / (self.y1 - self.y0) * (HEIGHT - TOP - BOTTOM)

    def frame(self, x_label: str, y_label: str) -> list[str]:
        """Grid lines, numbers and names."""
        found = []
        for low, high, log, across in ((self.x0, self.x1, self.x_log, True), (self.y0, self.y1, self.y_log, False)):
            for value in log_ticks(low, high) if log else ticks(low, high, 5):
                if across:
                    found.append(_text(self.x(value), HEIGHT - BOTTOM + 16, short(value)))
                else:
                    at = self.y(value)
                    found.append(f'<path class="grid" d="M{LEFT} {at:.1f}H{WIDTH - RIGHT}"/>')
                    found.append(_text(LEFT - 6, at + 4, short(value), "end"))
        found.append(f'<path class="axis" d="M{LEFT} {HEIGHT - BOTTOM}H{WIDTH - RIGHT}"/>')
        found.append(_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, x_label))
        middle = (TOP + HEIGHT - BOTTOM) / 2
        found.append(_text(12, middle, y_label, more=f' transform="rotate(-90 12 {middle})"'))
        return found


def gauge(shares: Sequence[float]) -> str:
    """Relative gaps on a line from 1, nothing is known, to rounding, all is known."""
    height, at = 92, 40

    def x(share: float) -> float:
        return 20 + (0.0 - math.log10(min(max(share, LEAST_GAP), 1.0))) / -math.log10(LEAST_GAP) * (WIDTH - 40)

    body = [f'<path class="rail" d="M20 {at}H{WIDTH - 20}"/>']
    for power in range(0, 17, 4):
        name = "100 %" if power == 0 else "0.01 %" if power == 4 else f"1e-{power}"
        body += [f'<path class="axis" d="M{x(10.0**-power):.1f} {at - 6}v12"/>', _text(x(10.0**-power), at + 26, name)]
    body += [f'<circle class="dot" cx="{x(share):.1f}" cy="{at}" r="7"/>' for share in shares]
    body += [_text(20, 18, "nothing proven", "start"), _text(WIDTH - 20, 18, "proven up to rounding", "end")]
    body.append(_text(WIDTH / 2, height - 6, "what another model could gain, as a share of the objective"))
    return _svg(body, "Relative gap between primal and dual, on a logarithmic line", height)


def lines(x: np.ndarray, series: dict[str, np.ndarray], x_label: str, y_label: str) -> str:
    """Curves over a common x, both logarithmic; what is not positive is left out."""
    whole = np.concatenate([values for values in series.values()])
    seen = whole[np.isfinite(whole) & (whole > 0)]
    ends = 10.0 ** math.floor(math.log10(seen.min())), 10.0 ** math.ceil(math.log10(seen.max()))
    axes = Axes((float(x.min()), float(x.max())), ends, x_log=True, y_log=True)
    body = axes.frame(x_label, y_label)
    for number, values in enumerate(series.values()):
        good = np.isfinite(values) & (values > 0)
        points = [
            f"{axes.x(a):.1f} {axes.y(b):.1f}" for a, b in zip(x[good].tolist(), values[good].tolist(), strict=True)
        ]
        body.append(f'<path class="line l{number + 1}" d="M{"L".join(points)}"/>')
        body.append(
            "".join(f'<circle class="dot" cx="{p.split()[0]}" cy="{p.split()[1]}" r="2.5"/>' for p in points[-1:])
        )
    return _svg(body, f"{y_label} against {x_label}")


def histogram(values: np.ndarray, x_label: str, marks: dict[str, float], split: float | None = None) -> str:
    """Counts of values; those below ``split`` have another colour, and ``marks`` are upright lines."""
    low, high = (float(v) for v in np.quantile(values, [0.002, 0.998]))  # a far value would hide the others
    low, high = min([low, *marks.values()]), max([high, *marks.values()])
    low, high = (low, high) if high > low else (low - 0.5, high + 0.5)
    edges = np.linspace(low, high, 31)
    if split is not None and low < split < high:  # an edge where the colour changes
        edges += split - edges[np.argmin(np.abs(edges - split))]
    counts = np.histogram(np.clip(values, edges[0], edges[-1]), edges)[0]
    axes = Axes((float(edges[0]), float(edges[-1])), (0.0, float(max(counts.max(), 1)) * 1.08))
    body = axes.frame(x_label, "samples")
    for count, a, b in zip(counts.tolist(), edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        if count:
            kind = "bar wrong" if split is not None and b <= split + 1e-12 * (high - low) else "bar"
            top = axes.y(count)
            wide = max(axes.x(b) - axes.x(a) - 1, 1)
            body.append(
                f'<rect class="{kind}" x="{axes.x(a):.1f}" y="{top:.1f}" width="{wide:.1f}" '
                f'height="{HEIGHT - BOTTOM - top:.1f}"/>'
            )
    for name, value in marks.items():
        body.append(f'<path class="mark" d="M{axes.x(value):.1f} {TOP}V{HEIGHT - BOTTOM}"/>')
        body.append(_text(axes.x(value) + 4, TOP + 8, name, "start"))
    return _svg(body, f"Histogram: {x_label}")


def scatter(x: np.ndarray, y: np.ndarray, x_label: str, y_label: str, tube: float) -> str:
    """Points around the diagonal, with a tube of this half-width."""
    low, high = float(min(x.min(), y.min())), float(max(x.max(), y.max()))
    edge = 0.03 * (high - low)
    axes = Axes((low - edge, high + edge), (low - edge, high + edge))
    body = axes.frame(x_label, y_label)
    for shift, kind in ((0.0, "axis"), (tube, "mark"), (-tube, "mark")):
        a, b = max(low, low - shift), min(high, high - shift)
        if (shift or kind == "axis") and b > a:
            body.append(
                f'<path class="{kind}" d="M{axes.x(a):.1f} {axes.y(a + shift):.1f}'
                f'L{axes.x(b):.1f} {axes.y(b + shift):.1f}"/>'
            )
    points = zip(x.tolist(), y.tolist(), strict=True)
    body += [f'<circle class="point" cx="{axes.x(a):.1f}" cy="{axes.y(b):.1f}" r="2.6"/>' for a, b in points]
    return _svg(body, f"{y_label} against {x_label}")
