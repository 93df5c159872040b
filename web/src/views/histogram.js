// Bars over time.
import "uplot/dist/uPlot.min.css";
import uPlot from "uplot";
import { useEffect, useRef } from "preact/hooks";
import { html } from "../html.js";

export function Histogram({ bins, label = "matches" }) {
  const place = useRef(null);
  useEffect(() => {
    if (!bins?.length) return undefined;
    const style = getComputedStyle(document.documentElement);
    const [text, accent, line] = ["--text", "--accent", "--line"].map((name) => style.getPropertyValue(name));
    const axis = { stroke: text, grid: { stroke: line }, ticks: { stroke: line } };
    const plot = new uPlot(
      {
        width: Math.max(280, place.current.clientWidth),
        height: 180,
        legend: { show: false },
        cursor: { show: false },
        axes: [axis, { ...axis, size: 60 }],
        series: [{}, { label, stroke: accent, fill: accent, paths: uPlot.paths.bars({ size: [0.9, 60] }), points: { show: false } }],
      },
      [bins.map((bin) => Date.parse(bin.start) / 1000), bins.map((bin) => bin.count)],
      place.current,
    );
    return () => plot.destroy();
  }, [bins]);
  if (!bins?.length) return null;
  const total = bins.reduce((sum, bin) => sum + bin.count, 0);
  return html`<div class="plot" ref=${place} role="img"
    aria-label=${`${total} ${label} from ${bins[0].start} to ${bins.at(-1).start}`}></div>`;
}
