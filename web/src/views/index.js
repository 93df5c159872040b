// Index: what the index is made of.
import { useEffect, useState } from "preact/hooks";
import { asCurl, asPython, get, path } from "../api.js";
import { html } from "../html.js";
import { Copy, ErrorBox, formatBytes, shorten } from "../parts.js";
import { collection } from "../state.js";

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
  if (!figures) return html`<${ErrorBox} error=${error} /><p class="quiet">Loading…</p>`;
  const most = Math.max(1, ...figures.attributes.map((use) => use.conjunctions));
  const sizes = figures.conjunction_sizes;
  const mostSizes = Math.max(1, ...sizes.map((each) => each.count));
  return html`<section aria-label="Segments"><h2>Segments</h2>
      <p>${figures.rules.toLocaleString("en")} rules, ${formatBytes(figures.bytes)} of index
        (${figures.rules ? Math.round(figures.bytes / figures.rules) : 0} bytes a rule), ${figures.tail} in the tail.</p>
      <div class="scroll" tabindex="0" role="group" aria-label="Table"><table>
        <thead><tr><th scope="col">Segment</th><th scope="col">Engine</th><th scope="col">Rules</th><th scope="col">Removed</th>
          <th scope="col">Conjunctions</th><th scope="col">Predicates</th><th scope="col">Programs</th><th scope="col">Groups</th><th scope="col">Tiles</th><th scope="col">Size</th></tr></thead>
        <tbody>${figures.segments.map((each, number) => html`<tr>
          <th scope="row">${number + 1}</th><td>${each.engine}</td><td>${each.rules.toLocaleString("en")}</td><td>${each.removed.toLocaleString("en")}</td>
          <td>${each.conjunctions.toLocaleString("en")}</td><td>${each.predicates.toLocaleString("en")}</td><td>${each.programs.toLocaleString("en")}</td>
          <td>${each.groups?.toLocaleString("en") ?? ""}</td><td>${each.tiles?.toLocaleString("en") ?? ""}</td><td>${formatBytes(each.bytes)}</td></tr>`)}</tbody>
      </table></div>
      ${figures.advice.map((line) => html`<p>${line}</p>`)}
    </section>
    <section aria-label="Largest parts"><h2>Where the bytes are</h2>
      <div class="scroll" tabindex="0" role="group" aria-label="Table"><table><tbody>${figures.parts.map((part) => html`<tr><th scope="row">${part.name}</th><td>${formatBytes(part.bytes)}</td>
        <td><${Bar} share=${part.bytes / Math.max(1, figures.bytes)} /></td></tr>`)}</tbody></table></div></section>
    <section aria-label="Conjunctions by size"><h2>Predicates in a conjunction</h2>
      <div class="scroll" tabindex="0" role="group" aria-label="Table"><table><tbody>${sizes.map((each) => html`<tr><th scope="row">${each.size}</th><td>${each.count.toLocaleString("en")}</td>
        <td><${Bar} share=${each.count / mostSizes} /></td></tr>`)}</tbody></table></div></section>
    <section aria-label="Attributes"><h2>Attributes</h2>
      <div class="scroll" tabindex="0" role="group" aria-label="Table"><table>
        <thead><tr><th scope="col">Attribute</th><th scope="col">Conjunctions</th><th scope="col"><span class="sr-only">Share</span></th><th scope="col">Predicates</th><th scope="col">Values</th></tr></thead>
        <tbody>${figures.attributes.slice(0, 200).map((use) => html`<tr key=${use.attribute}>
          <th scope="row">${shorten(use.attribute, 80)}</th><td>${use.conjunctions.toLocaleString("en")}</td>
          <td><${Bar} share=${use.conjunctions / most} /></td><td>${use.predicates.toLocaleString("en")}</td>
          <td>${Object.entries(use.values).filter(([, n]) => n).map(([kind, n]) => `${n.toLocaleString("en")} ${kind}s`).join(", ")}</td></tr>`)}</tbody>
      </table></div></section>
    ${figures.largest.length > 0 && html`<section aria-label="Costly rules"><h2>The largest rules</h2>
      <ul>${figures.largest.map((each) => html`<li><code>${shorten(each.rule, 80)}</code>: ${each.reason}</li>`)}</ul></section>`}
    <${Copy} items=${{ curl: () => asCurl("GET", path(c, "index")), Python: () => asPython(c, "stats") }} />`;
}
