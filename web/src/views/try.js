// Try: an event on the left, and the rules that it satisfies on the right, as one types.
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { asCurl, asPython, get, path, post } from "../api.js";
import { EventEditor } from "../editor.js";
import { html } from "../html.js";
import { Copy, Empty, ErrorBox, Tags, Tree, count, formatMs, shorten } from "../parts.js";
import { address, collection, parameters, remember } from "../state.js";
import { Boundary } from "./boundary.js";

const SHOWN = 100;

// Sets or removes an attribute by its dotted path, without touching the rest of the event.
export function edit(event, attribute, value) {
  const copy = structuredClone(event);
  if (attribute in copy || !attribute.includes(".")) {
    if (value === undefined) delete copy[attribute];
    else copy[attribute] = value;
    return copy;
  }
  const names = attribute.split(".");
  let at = copy;
  for (const name of names.slice(0, -1)) {
    if (typeof at[name] !== "object" || at[name] === null || Array.isArray(at[name])) at[name] = {};
    at = at[name];
  }
  if (value === undefined) delete at[names.at(-1)];
  else at[names.at(-1)] = value;
  return copy;
}

export function lookUp(event, attribute) {
  if (attribute in event) return event[attribute];
  return attribute.split(".").reduce((at, name) => at?.[name], event);
}

function parseEvent(text) {
  try {
    const event = JSON.parse(text);
    const isObject = typeof event === "object" && event !== null && !Array.isArray(event);
    return isObject ? [event, null] : [null, "An event is a JSON object."];
  } catch (error) {
    return [null, error.message];
  }
}

export function Try() {
  const [text, setText] = useState(parameters.value.event ?? "{\n  \n}");
  const [uses, setUses] = useState(null);
  const [answer, setAnswer] = useState(null);
  const [error, setError] = useState(null);
  const [opened, setOpened] = useState(parameters.value.rule ?? "");
  const latest = useRef(0);
  const c = collection.value;
  const [event, complaint] = useMemo(() => parseEvent(text), [text]);

  useEffect(() => {
    get(path(c, "attributes")).then((found) => setUses(found.attributes), setError);
  }, [c]);

  useEffect(() => {
    remember({ event: text });
    if (event === null) return;
    const number = ++latest.current;
    post(path(c, "try"), { event, n: SHOWN }).then(
      (found) => {
        if (number !== latest.current) return;
        setAnswer({ ...found, number });
        setError(null);
      },
      (problem) => number === latest.current && setError(problem),
    );
  }, [text, c]);

  useEffect(() => remember({ rule: opened }), [opened]);

  // benchmarks/bench_page.py reads these marks: when the answer to the n-th text was on the page.
  useLayoutEffect(() => {
    if (answer) performance.mark("tamis-answer", { detail: answer.number });
  }, [answer]);

  const names = useMemo(() => new Set((uses ?? []).map((use) => use.attribute)), [uses]);
  const isRead = useMemo(() => {
    if (uses === null) return null;
    const parts = new Set([...names].flatMap((name) => [name, ...name.split(".")]));
    return (name) => parts.has(name);
  }, [uses]);
  const change = (attribute, value) => setText(JSON.stringify(edit(event, attribute, value), null, 2));

  if (uses?.length === 0) {
    return html`<${Empty} title="No rules yet">
      <p>Write a rule such as <code>age >= 18 AND country = 'FR'</code>, then try events here.</p>
      <a class="button" href=${address("write")}>Write the first rule</a>
    <//>`;
  }
  const body = { event };
  return html`<div class="columns">
    <section aria-label="Event">
      <${EventEditor} value=${text} onChange=${setText} isRead=${isRead} />
      ${complaint && html`<p class="quiet" role="status">${complaint}</p>`}
      ${event && uses && html`<${Missing} event=${event} uses=${uses} change=${change} />`}
      ${event && uses && html`<${Sliders} event=${event} uses=${uses} change=${change} />`}
      ${event &&
      html`<${Copy}
        items=${{
          curl: () => asCurl("POST", path(c, "match"), body),
          Python: () => asPython(c, "match", event),
        }}
      />`}
    </section>
    <section aria-label="Matching rules">
      <${ErrorBox} error=${error} />
      ${answer &&
      html`<p role="status" aria-live="polite" class="summary">
        <strong>${count(answer.count, "rule")}</strong> ${answer.count === 1 ? "matches" : "match"}
        <span class="quiet"> in ${formatMs(answer.microseconds / 1000)}</span>
      </p>`}
      <ul class="rules">
        ${answer?.rules.map(
          (found) => html`<li key=${found.id}>
            <button
              type="button"
              class="rule"
              aria-expanded=${opened === String(found.id)}
              onClick=${() => setOpened(opened === String(found.id) ? "" : String(found.id))}
            >
              <span class="id">${shorten(found.id, 80)}</span>
              ${found.score !== 0 && html`<span class="score" title="Score"><span class="sr-only">score </span>${found.score}</span>`}
              <${Tags} tags=${found.tags} />
              <code>${shorten(found.text)}</code>
            </button>
            ${opened === String(found.id) &&
            html`<${Explained} id=${found.id} event=${event} change=${change} />`}
          </li>`,
        )}
      </ul>
      ${answer && answer.count > answer.rules.length &&
      html`<p class="quiet">The ${answer.rules.length} with the highest scores are shown.</p>`}
      ${event && html`<${Other} event=${event} change=${change} opened=${opened} setOpened=${setOpened}
        matched=${new Set(answer?.rules.map((each) => String(each.id)))} />`}
    </section>
  </div>`;
}

function Missing({ event, uses, change }) {
  const missing = uses.filter((use) => lookUp(event, use.attribute) === undefined).slice(0, 30);
  if (!missing.length) return null;
  return html`<details>
    <summary>${count(missing.length, "attribute")} that rules ask for and the event lacks</summary>
    <ul class="chips">
      ${missing.map(
        (use) => html`<li>
          <button
            type="button"
            class="chip"
            title=${`${count(use.predicates, "predicate")} ask for it`}
            onClick=${() => change(use.attribute, use.example ?? "")}
          >
            + ${shorten(use.attribute, 60)}
          </button>
        </li>`,
      )}
    </ul>
  </details>`;
}

function Sliders({ event, uses, change }) {
  const [chosen, setChosen] = useState(parameters.value.slide ?? "");
  const usable = uses.filter(
    (use) => use.values.number || use.values.timestamp || use.values.string,
  );
  if (!usable.length) return null;
  return html`<details open=${chosen !== ""}>
    <summary>Change one value and watch the rules</summary>
    <label>Attribute
      <select
        value=${chosen}
        onChange=${(e) => {
          setChosen(e.target.value);
          remember({ slide: e.target.value });
        }}
      >
        <option value="">choose</option>
        ${usable.map((use) => html`<option value=${use.attribute}>${shorten(use.attribute, 60)}</option>`)}
      </select>
    </label>
    ${chosen && html`<${Boundary} key=${chosen} event=${event} attribute=${chosen} change=${change} />`}
  </details>`;
}

function Explained({ id, event, change }) {
  const [tree, setTree] = useState(null);
  const [repairs, setRepairs] = useState(null);
  const [error, setError] = useState(null);
  const c = collection.value;
  useEffect(() => {
    if (event === null) return;
    const aborter = new AbortController();
    post(path(c, "explain"), { rule: id, event }, aborter.signal)
      .then(async (found) => {
        setError(null);
        setTree(found.explanation);
        const held = found.explanation.status === "held";
        setRepairs(held ? null : await post(path(c, "repairs"), { rule: id, event }, aborter.signal));
      })
      .catch((problem) => problem.name !== "AbortError" && setError(problem));
    return () => aborter.abort();
  }, [id, JSON.stringify(event), c]);
  return html`<div class="explained">
    <${ErrorBox} error=${error} />
    ${tree && html`<ul class="tree"><${Tree} node=${tree} /></ul>`}
    ${repairs &&
    html`<div class="repairs">
      ${repairs.changes === null && html`<p>No change of the event would make it match.</p>`}
      ${repairs.changes?.length > 0 && html`<p>It would match with:</p>`}
      <ul>
        ${repairs.changes?.map(
          (each) => html`<li>
            <code>${shorten(each.text)}</code>${" "}
            ${each.edits.map(
              (suggested) => html`<button
                type="button"
                class="small"
                onClick=${() => change(suggested.attribute, suggested.remove ? undefined : suggested.value)}
              >
                ${suggested.remove
                  ? `remove ${suggested.attribute}`
                  : `set ${suggested.attribute} to ${shorten(JSON.stringify(suggested.value), 60)}`}
              </button>`,
            )}
          </li>`,
        )}
      </ul>
      ${repairs.invalid && html`<p class="quiet">The rule is valid ${repairs.invalid}.</p>`}
    </div>`}
    <a href=${address("write", { rule: id })}>Open in Write</a>
  </div>`;
}

function Other({ event, change, opened, setOpened, matched }) {
  const [id, setId] = useState(opened);
  const [rules, setRules] = useState([]);
  useEffect(() => {
    const timer = setTimeout(() => {
      if (!id) return setRules([]);
      get(`${path(collection.value, "rules")}?limit=20&search=${encodeURIComponent(id)}`).then(
        (page) => setRules(page.rules),
        () => setRules([]),
      );
    }, 150);
    return () => clearTimeout(timer);
  }, [id]);
  const others = rules.filter((rule) => !matched.has(String(rule.id)));
  return html`<div class="other">
    <label>Why does another rule not match?
      <input type="search" placeholder="id or text of a rule" value=${id}
        onInput=${(e) => setId(e.target.value)} />
    </label>
    <ul class="rules">
      ${others.map(
        (rule) => html`<li key=${rule.id}>
          <button type="button" class="rule" aria-expanded=${opened === String(rule.id)}
            onClick=${() => setOpened(opened === String(rule.id) ? "" : String(rule.id))}>
            <span class="id">${shorten(rule.id, 80)}</span>
            <code>${shorten(typeof rule.rule === "string" ? rule.rule : JSON.stringify(rule.rule))}</code>
          </button>
          ${opened === String(rule.id) &&
          html`<${Explained} id=${rule.id} event=${event} change=${change} />`}
        </li>`,
      )}
    </ul>
    ${id && id !== opened && rules.length > others.length &&
    html`<p class="quiet">${count(rules.length - others.length, "rule")} with this text ${rules.length - others.length === 1 ? "matches" : "match"}, and ${rules.length - others.length === 1 ? "is" : "are"} listed above.</p>`}
  </div>`;
}
