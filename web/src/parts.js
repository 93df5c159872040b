// Small parts that several views share. Texts of users are always text nodes, never HTML.
import { html } from "./html.js";
import { useState } from "preact/hooks";

const MARKS = { held: "✓", "did not hold": "✗", absent: "∅", unknown: "?" };
const SHOWN = 300;

export const shorten = (text, most = SHOWN) => {
  const plain = String(text);
  return plain.length <= most ? plain : `${plain.slice(0, most - 1)}…`;
};

export const count = (number, noun, many = `${noun}s`) =>
  `${number.toLocaleString("en")} ${number === 1 ? noun : many}`;

export const formatMs = (ms) =>
  ms < 1 ? `${Math.round(ms * 1000)} µs` : `${ms.toFixed(ms < 10 ? 1 : 0)} ms`;

export const formatAge = (time, now = Date.now()) => {
  const seconds = Math.max(0, (now - Date.parse(time)) / 1000);
  if (seconds < 1) return "under a second";
  if (seconds < 120) return count(Math.round(seconds), "second");
  if (seconds < 7200) return count(Math.round(seconds / 60), "minute");
  if (seconds < 172_800) return count(Math.round(seconds / 3600), "hour");
  return count(Math.round(seconds / 86_400), "day");
};

export const formatTime = (time) => time.replace("T", " ").replace(/(\.\d{3})\d*/, "$1").replace("+00:00", "Z");

export const formatBytes = (bytes) => {
  const units = ["B", "kB", "MB", "GB"];
  let unit = 0;
  while (bytes >= 1000 && unit < 3) {
    bytes /= 1000;
    unit += 1;
  }
  return `${bytes.toFixed(unit && bytes < 10 ? 1 : 0)} ${units[unit]}`;
};

export function Tree({ node }) {
  const kind = node.status.replaceAll(" ", "-");
  return html`<li class=${`tree-node ${kind}`}>
    <span class="mark" aria-hidden="true">${MARKS[node.status]}</span>
    <code>${shorten(node.text, 2000)}</code>
    <span class="quiet">
      ${node.attribute != null &&
      html` ${node.attribute} ${
        node.values.length ? `= ${shorten(JSON.stringify(node.values), 200)}` : "is absent"
      }:`}
      ${" "}${node.status}
    </span>
    ${node.children &&
    html`<ul>
      ${node.children.map((child) => html`<${Tree} node=${child} />`)}
    </ul>`}
  </li>`;
}

export function ErrorBox({ error }) {
  if (!error) return null;
  const { problem } = error;
  return html`<div class="error" role="alert">
    <p>${error.message}</p>
    ${problem?.excerpt && html`<pre>${problem.excerpt}</pre>`}
  </div>`;
}

export function Copy({ items }) {
  const [done, setDone] = useState("");
  const copy = async (name, text) => {
    try {
      await navigator.clipboard.writeText(text);
      setDone(name);
    } catch {
      setDone("");
      prompt("Copy this text:", text);
    }
  };
  return html`<div class="copy">
    ${Object.entries(items).map(
      ([name, make]) => html`<button type="button" class="small" onClick=${() => copy(name, make())}>
        ${done === name ? "Copied" : `Copy as ${name}`}
      </button>`,
    )}
    <span class="sr-only" aria-live="polite">${done && `Copied as ${done}`}</span>
  </div>`;
}

// A table that scrolls by itself where it is wider than the page.
export function Scroll({ label, children }) {
  return html`<div class="scroll" tabindex="0" role="group" aria-label=${label}>${children}</div>`;
}

export function Empty({ title, children }) {
  return html`<div class="empty"><h2>${title}</h2>${children}</div>`;
}

export function Tags({ tags }) {
  return tags?.length
    ? html`<span class="tags">${tags.map((tag) => html`<span class="tag">${shorten(tag, 40)}</span>`)}</span>`
    : null;
}
