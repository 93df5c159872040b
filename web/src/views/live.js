// Live: publishes as they happen, the state of each subscription, and dead letters.
import { useEffect, useRef, useState } from "preact/hooks";
import { asCurl, asPython, get, path, post } from "../api.js";
import { html } from "../html.js";
import { Copy, ErrorBox, count, shorten } from "../parts.js";
import { collection, readOnly } from "../state.js";

const KEPT = 200;

export function Live() {
  const c = collection.value;
  const [events, setEvents] = useState([]);
  const [subscriptions, setSubscriptions] = useState([]);
  const [letters, setLetters] = useState([]);
  const [rate, setRate] = useState(0);
  const [latest, setLatest] = useState(0);
  const [state, setState] = useState("connecting");
  const [error, setError] = useState(null);
  const times = useRef([]);

  useEffect(() => {
    let stopped = false;
    const listen = async () => {
      let after = null;
      while (!stopped) {
        try {
          const query = after === null ? "?limit=1" : `?limit=200&after=${after}`;
          const page = await get(`${path(c, "log")}${query}`);
          if (stopped) return;
          // Those that were published before the page was opened are a few lines of context.
          if (after === null) after = Math.max(page.earliest - 1, page.latest - 20);
          else if (page.events.length) {
            after = page.events.at(-1).sequence;
            times.current.push(...page.events.map(() => Date.now()));
            setEvents((old) => [...page.events.toReversed(), ...old].slice(0, KEPT));
          }
          setState("listening");
        } catch (problem) {
          if (problem.status === 410) after = problem.problem.earliest - 1;
          else setState("connecting");
        }
        await new Promise((resolve) => setTimeout(resolve, 400));
      }
    };
    listen();
    return () => (stopped = true);
  }, [c]);

  const refresh = async () => {
    try {
      const list = (await get(path(c, "subscriptions"))).subscriptions;
      setSubscriptions(list);
      setLatest((await get(`${path(c, "log")}?limit=1`)).latest);
      const dead = await Promise.all(
        list.filter((each) => each.webhook).map(async ({ name }) => {
          const found = await get(path(c, `subscriptions/${encodeURIComponent(name)}/dead-letters`));
          return found.dead_letters.map((letter) => ({ ...letter, subscription: name }));
        }),
      );
      setLetters(dead.flat());
      setError(null);
    } catch (problem) {
      setError(problem);
    }
    const last = Date.now() - 10_000;
    times.current = times.current.filter((time) => time > last);
    setRate(times.current.length / 10);
  };
  useEffect(() => {
    refresh();
    const timer = setInterval(refresh, 2000);
    return () => clearInterval(timer);
  }, [c]);

  const replay = async (letter) => {
    try {
      const name = encodeURIComponent(letter.subscription);
      await post(path(c, `subscriptions/${name}/replay`), { sequences: [letter.sequence] });
      await refresh();
    } catch (problem) {
      setError(problem);
    }
  };
  const sample = { event: { price: 12 } };
  return html`<${ErrorBox} error=${error} />
    <p class="summary" role="status">${state} · ${rate.toFixed(1)} events a second</p>
    <section aria-label="Subscriptions"><h2>Subscriptions</h2>
      ${subscriptions.length === 0 && html`<p class="quiet">None yet. <code>tamis subscribe</code> makes one, or <code>PUT ${path(c, "subscriptions/NAME")}</code>.</p>`}
      ${subscriptions.length > 0 && html`<div class="scroll" tabindex="0" role="group" aria-label="Table"><table>
        <thead><tr><th scope="col">Name</th><th scope="col">Owner</th><th scope="col">Priority</th><th scope="col">Events behind</th><th scope="col">Acknowledged</th></tr></thead>
        <tbody>${subscriptions.map((each) => html`<tr key=${each.name}>
          <th scope="row">${shorten(each.name, 60)}</th><td>${shorten(each.owner ?? "", 60)}</td><td>${each.priority}</td>
          <td>${Math.max(0, latest - each.acknowledged).toLocaleString("en")}</td><td>${each.acknowledged ?? ""}</td></tr>`)}</tbody>
      </table></div>`}
    </section>
    ${letters.length > 0 && html`<section aria-label="Dead letters"><h2>Dead letters</h2>
      <ul>${letters.map((letter) => html`<li key=${`${letter.subscription} ${letter.sequence}`}>
        ${shorten(letter.subscription, 60)}, event ${letter.sequence}: ${shorten(letter.reason, 200)}${" "}
        ${!readOnly.value && html`<button type="button" class="small" onClick=${() => replay(letter)}>Replay</button>`}
      </li>`)}</ul></section>`}
    <section aria-label="Published events"><h2>Published events</h2>
      ${events.length === 0 && html`<p class="quiet">Waiting for events. Publish one:</p>
        <pre>${asCurl("POST", path(c, "publish"), sample)}</pre>`}
      <ol class="log" aria-live="polite">${events.map((event) => html`<li key=${event.sequence}>
        <span class="id">${event.sequence}</span> <span class="quiet">${event.time?.replace("T", " ").slice(0, 23)}</span>${" "}
        <code>${shorten(JSON.stringify(event.event), 300)}</code>${" "}
        ${count(event.deliveries?.length ?? 0, "delivery").replace("deliverys", "deliveries")}
        ${event.deliveries?.length > 0 && html`<span class="quiet"> → ${event.deliveries.slice(0, 5).map((each) => each.subscription).join(", ")}</span>`}
      </li>`)}</ol>
    </section>
    <${Copy} items=${{ curl: () => asCurl("POST", path(c, "publish"), sample), Python: () => asPython(c, "publish", sample.event) }} />`;
}
