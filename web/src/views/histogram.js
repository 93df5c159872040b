// Bars over time.
import "uplot/dist/uPlot.min.css";
import uPlot from "uplot";
import { useEffect, useRef } from "preact/hooks";
import { html } from "../html.js";

export function Histogram({ bins, label = "matches" }) {
  const place = useRef(null);
  useEffect(() => {
    if (!bins?.length) return undefined;
    // A canvas knows no light-dark(): the colours are those that elements of the page have got.
    const [text, accent, line] = ["--text", "--accent", "--line"].map((name) => {
      place.current.style.color = `var(${name})`;
      return getComputedStyle(place.current).color;
    });
    place.current.style.color = "";
    const times = bins.map((bin) => Date.parse(bin.start) / 1000);
    const step = times.length > 1 ? times[1] - times[0] : 3600;
    const axis = { stroke: text, grid: { stroke: line }, ticks: { stroke: line } };
    const plot = new uPlot(
      {
        width: Math.max(280, place.current.clientWidth),
        height: 180,
        scales: { x: { range: [times[0] - step, times.at(-1) + step] } },
        legend: { show: false },
        cursor: { show: false },
        axes: [axis, { ...axis, size: 60 }],
        series: [{}, { label, stroke: accent, fill: accent, paths: uPlot.paths.bars({ size: [0.9, 60] }), points: { show: false } }],
      },
      [times, bins.map((bin) => bin.count)],
      place.current,
    );
    return () => plot.destroy();
  }, [bins]);
  if (!bins?.length) return null;
  const total = bins.reduce((sum, bin) => sum + bin.count, 0);
  return html`<div class="plot" ref=${place} role="img"
    aria-label=${`${total} ${label} from ${bins[0].start} to ${bins.at(-1).start}`}></div>`;
}
