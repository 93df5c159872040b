// The boundary slider: one position for each stretch of values with the same matching rules.
import { useEffect, useRef, useState } from "preact/hooks";
import { path, post } from "../api.js";
import { html } from "../html.js";
import { ErrorBox, count, shorten } from "../parts.js";
import { collection } from "../state.js";
import { lookUp } from "./try.js";

const show = (value) => (typeof value === "string" ? value : JSON.stringify(value));

function describe(stretch) {
  if (stretch.low === null) return `below ${show(stretch.high)}`;
  if (stretch.high === null) return `above ${show(stretch.low)}`;
  if (stretch.is_point) return `exactly ${show(stretch.low)}`;
  return `between ${show(stretch.low)} and ${show(stretch.high)}`;
}

export function Boundary({ event, attribute, change }) {
  const [found, setFound] = useState(null);
  const [place, setPlace] = useState(null);
  const [possible, setPossible] = useState(null);
  const [error, setError] = useState(null);
  const own = useRef(undefined);
  const c = collection.value;
  // The stretches depend on all other values: dragging alone asks for nothing new.
  const { [attribute]: _, ...others } = event;
  const rest = JSON.stringify(others);

  useEffect(() => {
    const aborter = new AbortController();
    post(path(c, "boundaries"), { event, attribute }, aborter.signal).then(
      (answer) => {
        setFound(answer);
        setPlace(answer.current ?? 0);
        setError(null);
      },
      (problem) => problem.name !== "AbortError" && setError(problem),
    );
    return () => aborter.abort();
  }, [rest, attribute, c]);

  const drag = (number) => {
    setPlace(number);
    setPossible(null);
    own.current = found.stretches[number].value;
    change(attribute, own.current);
  };
  const forget = async () => {
    try {
      setPossible(await post(path(c, "possible"), { event, unknown: [attribute] }));
      setError(null);
    } catch (problem) {
      setError(problem);
    }
  };
  if (!found) return html`<${ErrorBox} error=${error} />`;
  const stretch = found.stretches[place];
  return html`<div class="boundary">
    <input
      type="range"
      min="0"
      max=${found.stretches.length - 1}
      value=${place}
      aria-label=${`Value of ${attribute}`}
      aria-valuetext=${`${describe(stretch)}: ${count(stretch.matches, "rule")}`}
      onInput=${(e) => drag(Number(e.target.value))}
    />
    <svg class="steps" viewBox=${`0 0 ${found.stretches.length} 100`} preserveAspectRatio="none" aria-hidden="true">
      ${found.stretches.map((each, number) => {
        const most = Math.max(1, ...found.stretches.map((one) => one.matches));
        const height = (100 * each.matches) / most;
        return html`<rect x=${number} y=${100 - height} width="1" height=${height}
          class=${number === place ? "here" : ""} />`;
      })}
    </svg>
    <p role="status">
      <strong>${shorten(attribute, 60)}</strong> ${describe(stretch)}:
      ${" "}${count(stretch.matches, "rule")}
      ${stretch.gained.length > 0 && html`<span class="gained"> + ${stretch.gained.slice(0, 8).map(show).join(", ")}</span>`}
      ${stretch.lost.length > 0 && html`<span class="lost"> − ${stretch.lost.slice(0, 8).map(show).join(", ")}</span>`}
    </p>
    ${!found.is_complete &&
    html`<p class="quiet">Some rules compute with it, or look inside texts: they may change between these values, too.</p>`}
    ${found.cuts_below + found.cuts_above > 0 &&
    html`<p class="quiet">${count(found.cuts_below, "more value")} below, ${count(found.cuts_above, "more")} above.</p>`}
    <button type="button" class="small" onClick=${forget}>What if it were unknown?</button>
    ${lookUp(event, attribute) !== undefined &&
    html` <button type="button" class="small" onClick=${() => change(attribute, undefined)}>Remove it</button>`}
    ${possible &&
    html`<p>${count(possible.count, "rule")} could still match, whatever the value:
      ${" "}${possible.rules.slice(0, 20).map(show).join(", ")}</p>`}
    <${ErrorBox} error=${error} />
  </div>`;
}
