// Live: publishes as they happen, latencies, the state of each subscription, and dead letters.
import { useEffect, useRef, useState } from "preact/hooks";
import { asCurl, asPython, get, path, post } from "../api.js";
import { html } from "../html.js";
import { Copy, ErrorBox, Scroll, count, formatAge, formatMs, formatTime, shorten } from "../parts.js";
import { collection, readOnly } from "../state.js";

const KEPT = 200;
const LOG_MS = 400;
const FIGURES_MS = 2000;
const MOST_WAITING = 1000;
const KINDS = {
  match: "Matches",
  batch: "Batches of matches",
  publish: "Publishes",
  "publish-many": "Batches of publishes",
  try: "Tried in this page",
};

// Calls `action` again and again while the page is visible.
function usePoll(action, milliseconds, depends) {
  useEffect(() => {
    let stopped = false;
    const poll = async () => {
      while (!stopped) {
        if (!document.hidden) await action(() => stopped);
        await new Promise((resolve) => setTimeout(resolve, milliseconds));
      }
    };
    poll();
    return () => (stopped = true);
  }, depends);
}

export function Live() {
  const c = collection.value;
  const [events, setEvents] = useState([]);
  const [figures, setFigures] = useState(null);
  const [state, setState] = useState("Connecting…");
  const [error, setError] = useState(null);
  const [message, setMessage] = useState("");
  const after = useRef(null);

  const listen = async (isStopped) => {
    try {
      const query = after.current === null ? "?limit=1" : `?limit=200&after=${after.current}`;
      const page = await get(`${path(c, "log")}${query}`);
      if (isStopped()) return;
      // Those that were published before the page was opened are a few lines of context.
      if (after.current === null) after.current = Math.max(page.earliest - 1, page.latest - 20);
      else if (page.events.length) {
        after.current = page.events.at(-1).sequence;
        setEvents((old) => [...page.events.toReversed(), ...old].slice(0, KEPT));
      }
      setState("Listening");
    } catch (problem) {
      if (problem.status === 410) after.current = problem.problem.earliest - 1;
      else setState("Connecting…");
    }
  };
  usePoll(listen, LOG_MS, [c]);

  const refresh = async (isStopped = () => false) => {
    try {
      const found = await get(path(c, "live"));
      if (isStopped()) return;
      setFigures(found);
      setError(null);
    } catch (problem) {
      setError(problem);
    }
  };
  usePoll(refresh, FIGURES_MS, [c]);

  const replay = async (name, sequences) => {
    try {
      const place = path(c, `subscriptions/${encodeURIComponent(name)}/replay`);
      const { replayed } = await post(place, sequences ? { sequences } : {});
      setMessage(`${count(replayed, "message")} to ${shorten(name, 60)} will be sent again.`);
      await refresh();
    } catch (problem) {
      setError(problem);
    }
  };
  const sample = { event: { price: 12 } };
  return html`<${ErrorBox} error=${error} />
    <p class="summary" role="status">${state}${figures && ` · ${count(figures.latest, "event")} published so far`}</p>
    ${figures && html`<${Latencies} latencies=${figures.latencies} /><${Subscriptions} figures=${figures} />`}
    ${figures && html`<${DeadLetters} figures=${figures} replay=${replay} />`}
    <p role="status" class="gained">${message}</p>
    <section aria-label="Published events"><h2>Published events</h2>
      ${events.length === 0 && html`<p class="quiet">Waiting for events. Publish one:</p>
        <pre>${asCurl("POST", path(c, "publish"), sample)}</pre>`}
      <ol class="log" aria-live="polite">${events.map((event) => html`<${Published} key=${event.sequence} event=${event} />`)}</ol>
    </section>
    <${Copy} items=${{ curl: () => asCurl("POST", path(c, "publish"), sample), Python: () => asPython(c, "publish", sample.event) }} />`;
}

function Latencies({ latencies }) {
  return html`<section aria-label="Latency"><h2>Latency</h2>
    ${latencies.length === 0 && html`<p class="quiet">No requests in the last five minutes.</p>`}
    ${latencies.length > 0 && html`<${Scroll} label="Latency"><table class="numbers">
      <thead><tr><th scope="col">Request</th><th scope="col">p50</th><th scope="col">p95</th>
        <th scope="col">p99</th><th scope="col">Per second</th><th scope="col">In five minutes</th></tr></thead>
      <tbody>${latencies.map((each) => html`<tr key=${each.kind}>
        <th scope="row">${KINDS[each.kind] ?? each.kind}</th>
        <td>${formatMs(each.p50_ms)}</td><td>${formatMs(each.p95_ms)}</td><td>${formatMs(each.p99_ms)}</td>
        <td>${each.per_second.toFixed(1)}</td>
        <td>${each.requests.toLocaleString("en")}</td></tr>`)}</tbody>
    </table><//>`}
  </section>`;
}

function Subscriptions({ figures }) {
  const { lagging, subscriptions } = figures;
  return html`<section aria-label="Subscriptions"><h2>Subscriptions</h2>
    ${subscriptions === 0 && html`<p class="quiet">None yet. <code>tamis subscribe</code> makes one, or <code>PUT ${path(collection.value, "subscriptions/NAME")}</code>.</p>`}
    ${subscriptions > 0 && html`<${Scroll} label="Subscriptions"><table class="numbers">
      <thead><tr><th scope="col">Name</th><th scope="col">Waiting</th><th scope="col">Oldest waits</th><th scope="col">Retries</th>
        <th scope="col">Dead</th><th scope="col">Delivery</th><th scope="col">Priority</th><th scope="col">Owner</th></tr></thead>
      <tbody>${lagging.map((each) => html`<tr key=${each.name}>
        <th scope="row">${shorten(each.name, 60)}</th>
        <td>${each.waiting >= MOST_WAITING ? `over ${(MOST_WAITING - 1).toLocaleString("en")}` : each.waiting.toLocaleString("en")}</td>
        <td>${each.oldest === null ? "" : formatAge(each.oldest)}</td>
        <td>${each.retries || ""}</td><td class=${each.dead ? "lost" : ""}>${each.dead || ""}</td>
        <td>${each.webhook === null ? "reads" : html`<span title=${each.webhook}>webhook</span>`}</td>
        <td>${each.priority}</td><td>${shorten(each.owner ?? "", 60)}</td></tr>`)}</tbody>
    </table><//>`}
    ${subscriptions > lagging.length && html`<p class="quiet">The ${lagging.length} furthest behind, of ${subscriptions.toLocaleString("en")}.</p>`}
  </section>`;
}

function DeadLetters({ figures, replay }) {
  const { letters, dead } = figures;
  if (dead === 0) return null;
  const names = [...new Set(letters.map((letter) => letter.subscription))];
  return html`<section aria-label="Dead letters"><h2>Dead letters</h2>
    <p class="quiet">Messages that a webhook did not take after all attempts.</p>
    <${Scroll} label="Dead letters"><table class="stack">
      <thead><tr><th scope="col">Subscription</th><th scope="col">Event</th><th scope="col">Given up</th><th scope="col">Reason</th>
        <th scope="col"><span class="sr-only">Action</span></th></tr></thead>
      <tbody>${letters.map((letter) => html`<tr key=${`${letter.subscription} ${letter.sequence}`}>
        <th scope="row">${shorten(letter.subscription, 60)}</th><td data-label="Event">${letter.sequence}</td>
        <td data-label="Given up" title=${formatTime(letter.time)}>${formatAge(letter.time)} ago</td>
        <td data-label="Reason">${shorten(letter.reason, 200)} (${count(letter.attempts, "attempt")})</td>
        <td>${!readOnly.value && html`<button type="button" class="small" aria-label=${`Replay event ${letter.sequence} to ${shorten(letter.subscription, 60)}`}
          onClick=${() => replay(letter.subscription, [letter.sequence])}>Replay</button>`}</td></tr>`)}</tbody>
    </table><//>
    ${dead > letters.length && html`<p class="quiet">The latest ${letters.length} of ${dead.toLocaleString("en")}.</p>`}
    ${!readOnly.value && html`<div class="row">${names.slice(0, 10).map((name) => html`<button key=${name} type="button" class="small"
      onClick=${() => replay(name)}>Replay all to ${shorten(name, 60)}</button>`)}</div>`}
  </section>`;
}

function Published({ event }) {
  const deliveries = event.deliveries ?? [];
  const names = deliveries.slice(0, 5).map((each) => shorten(each.subscription, 40)).join(", ");
  return html`<li>
    <span class="id">${event.sequence}</span> <span class="quiet">${formatTime(event.time)}</span>${" "}
    <code>${shorten(JSON.stringify(event.event), 200)}</code>${" "}
    <span class="quiet">${
      deliveries.length === 0 ? "no subscription" : `→ ${names}${deliveries.length > 5 ? ` and ${deliveries.length - 5} more` : ""}`
    }</span>
  </li>`;
}
