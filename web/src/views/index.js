// Index: what the index is made of.
import { useEffect, useState } from "preact/hooks";
import { asCurl, asPython, get, path, post } from "../api.js";
import { html } from "../html.js";
import { Copy, Empty, ErrorBox, Scroll, count, formatBytes, formatMs, shorten } from "../parts.js";
import { address, collection } from "../state.js";

function Bar({ share }) {
  return html`<meter min="0" max="1" value=${share} aria-hidden="true"></meter>`;
}

export function Index() {
  const c = collection.value;
  const [figures, setFigures] = useState(null);
  const [error, setError] = useState(null);
  useEffect(() => {
    get(path(c, "index")).then(setFigures, setError);
  }, [c]);
  if (!figures) return html`<${ErrorBox} error=${error} />${!error && html`<p class="quiet">Loading…</p>`}`;
  if (!figures.rules) {
    return html`<${Empty} title="An empty index">
      <p>Rules are compiled into segments: arrays that one search looks through for all rules at once. This view shows what they are made of.</p>
      <a class="button" href=${address("write")}>Write the first rule</a>
    <//>`;
  }
  return html`<${Segments} figures=${figures} /><${Costs} />
    <${Attributes} figures=${figures} />
    <div class="columns"><${Sizes} figures=${figures} /><${Parts} figures=${figures} /></div>
    ${figures.largest.length > 0 && html`<section aria-label="Largest rules"><h2>The largest rules</h2>
      <ul>${figures.largest.map((each) => html`<li><${RuleLink} rule=${each.rule} />: ${each.reason}</li>`)}</ul></section>`}
    <${Copy} items=${{ curl: () => asCurl("GET", path(c, "index")), Python: () => asPython(c, "stats") }} />`;
}

const number = (value) => value.toLocaleString("en");

function RuleLink({ rule }) {
  return html`<a href=${address("write", { rule })}>${shorten(rule, 80)}</a>`;
}

function Segments({ figures }) {
  return html`<section aria-label="Segments"><h2>Segments</h2>
    <p>${count(figures.rules, "rule")}, ${formatBytes(figures.bytes)} of index (${Math.round(figures.bytes / figures.rules)} bytes a rule).
      ${figures.tail > 0 && ` ${count(figures.tail, "new rule")} not compiled yet.`}</p>
    <${Scroll} label="Segments"><table class="numbers">
      <thead><tr><th scope="col">Segment</th><th scope="col">Engine</th><th scope="col">Rules</th><th scope="col">Removed</th>
        <th scope="col">Conjunctions</th><th scope="col">Predicates</th><th scope="col">Programs</th><th scope="col">Groups</th>
        <th scope="col">Tiles</th><th scope="col">Size</th></tr></thead>
      <tbody>${figures.segments.map((each, place) => html`<tr>
        <th scope="row">${place + 1}</th><td>${each.engine}</td><td>${number(each.rules)}</td><td>${number(each.removed)}</td>
        <td>${number(each.conjunctions)}</td><td>${number(each.predicates)}</td><td>${number(each.programs)}</td>
        <td>${each.groups === null ? "" : number(each.groups)}</td><td>${each.tiles === null ? "" : number(each.tiles)}</td>
        <td>${formatBytes(each.bytes)}</td></tr>`)}</tbody>
    </table><//>
    ${figures.advice.map((line) => html`<p>${line}</p>`)}
  </section>`;
}

// What searches cost, measured when a person asks for it: it takes the server some seconds.
function Costs() {
  const c = collection.value;
  const [costs, setCosts] = useState(null);
  const [error, setError] = useState(null);
  const [runs, setRuns] = useState(false);
  const measure = async () => {
    setRuns(true);
    try {
      setCosts(await post(path(c, "costs"), undefined));
      setError(null);
    } catch (problem) {
      setError(problem);
    }
    setRuns(false);
  };
  const microseconds = (value) => formatMs(value / 1000);
  return html`<section aria-label="Slowest rules"><h2>What searches cost</h2>
    ${!costs && html`<p class="quiet">Times events in each part of the index, and rules one by one.</p>`}
    <button type="button" onClick=${measure} disabled=${runs}>${runs ? "Measuring…" : costs ? "Measure again" : "Find the slowest rules"}</button>
    <${ErrorBox} error=${error} />
    ${costs && html`<div role="status">
      <p>An event takes <strong>${microseconds(costs.microseconds)}</strong>
        ${costs.parts.length > 1 && `: ${costs.parts.map((part) => `${part.name} ${microseconds(part.microseconds)} (${count(part.rules, "rule")})`).join(", ")}`}.
        ${" "}Mean of ${costs.source === "log" ? `the last ${count(costs.events, "published event")}` : `${count(costs.events, "drawn event")}, as none was published`}.</p>
      ${costs.advice.map((line) => html`<p>${line}</p>`)}
      <p>${costs.slowest.length === 0 ? "No rule stands out" : `${count(costs.slowest.length, "rule stands", "rules stand")} out`}:
        ${" "}${costs.measured === costs.rules ? `all ${count(costs.rules, "rule")} were` : `${count(costs.measured, "rule")} of ${number(costs.rules)} were`} measured alone, the median takes ${microseconds(costs.typical)}.</p>
      ${costs.slowest.length > 0 && html`<${Scroll} label="Slowest rules"><table>
        <thead><tr><th scope="col">Rule</th><th scope="col">Alone</th><th scope="col">Of the median</th><th scope="col">Text</th></tr></thead>
        <tbody>${costs.slowest.map((each) => html`<tr key=${each.rule}><th scope="row"><${RuleLink} rule=${each.rule} /></th>
          <td>${microseconds(each.microseconds)}</td><td>${(each.microseconds / Math.max(costs.typical, 0.001)).toFixed(1)} ×</td>
          <td><code>${shorten(each.text)}</code></td></tr>`)}</tbody>
      </table><//>`}
    </div>`}
  </section>`;
}

function Attributes({ figures }) {
  const most = Math.max(1, ...figures.attributes.map((use) => use.conjunctions));
  const shown = figures.attributes.slice(0, 200);
  return html`<section aria-label="Attributes"><h2>Attributes</h2>
    <${Scroll} label="Attributes"><table class="numbers">
      <thead><tr><th scope="col">Attribute</th><th scope="col">Conjunctions</th><th scope="col"><span class="sr-only">Share</span></th>
        <th scope="col">Predicates</th><th scope="col">Values that rules mention</th></tr></thead>
      <tbody>${shown.map((use) => html`<tr key=${use.attribute}>
        <th scope="row">${shorten(use.attribute, 80)}</th><td>${number(use.conjunctions)}</td>
        <td><${Bar} share=${use.conjunctions / most} /></td><td>${number(use.predicates)}</td>
        <td>${Object.entries(use.values).filter(([, n]) => n).map(([kind, n]) => count(n, kind)).join(", ")}</td></tr>`)}</tbody>
    </table><//>
    ${figures.attributes.length > shown.length && html`<p class="quiet">The ${shown.length} most used of ${number(figures.attributes.length)}.</p>`}
  </section>`;
}

function Sizes({ figures }) {
  const sizes = figures.conjunction_sizes;
  const most = Math.max(1, ...sizes.map((each) => each.count));
  return html`<section aria-label="Conjunctions by size"><h2>Predicates in a conjunction</h2>
    <${Scroll} label="Conjunctions by size"><table class="numbers">
      <thead><tr><th scope="col">Predicates</th><th scope="col">Conjunctions</th><th scope="col"><span class="sr-only">Share</span></th></tr></thead>
      <tbody>${sizes.map((each) => html`<tr><th scope="row">${each.size}</th><td>${number(each.count)}</td>
        <td><${Bar} share=${each.count / most} /></td></tr>`)}</tbody></table><//></section>`;
}

function Parts({ figures }) {
  return html`<section aria-label="Largest parts"><h2>Where the bytes are</h2>
    <${Scroll} label="Largest parts"><table class="numbers">
      <thead><tr><th scope="col">Array</th><th scope="col">Size</th><th scope="col"><span class="sr-only">Share</span></th></tr></thead>
      <tbody>${figures.parts.map((part) => html`<tr><th scope="row">${part.name}</th><td>${formatBytes(part.bytes)}</td>
        <td><${Bar} share=${part.bytes / Math.max(1, figures.bytes)} /></td></tr>`)}</tbody></table><//></section>`;
}
