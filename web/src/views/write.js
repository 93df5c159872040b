// Write: an editor for a rule, with what the rule means, its relatives and its past under it.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { asCurl, asPython, get, path, post, rulePath, send } from "../api.js";
import { RuleEditor } from "../editor.js";
import { html } from "../html.js";
import { Copy, ErrorBox, count, shorten } from "../parts.js";
import { address, collection, go, parameters, readOnly, remember } from "../state.js";
import { Histogram } from "./histogram.js";

const SYSTEMS = ["sigma", "mustang", "eventbridge", "jsonlogic", "growthbook"];

const split = (text) => text.split(",").map((part) => part.trim()).filter(Boolean);
const quote = (text) => `'${text.replaceAll("'", "''")}'`;

function useLater(action, delay, depends) {
  useEffect(() => {
    const aborter = new AbortController();
    const timer = setTimeout(() => action(aborter.signal), delay);
    return () => {
      clearTimeout(timer);
      aborter.abort();
    };
  }, depends);
}

export function Write() {
  const c = collection.value;
  const [id, setId] = useState(parameters.value.rule ?? "");
  const [draft, setDraft] = useState({
    rule: parameters.value.text ?? "",
    logic: "strong",
    tags: "",
    priority: 0,
    valid_from: "",
    valid_until: "",
    must_match: "",
    must_not_match: "",
  });
  const [saved, setSaved] = useState(null);
  const [meaning, setMeaning] = useState(null);
  const [problem, setProblem] = useState(null);
  const [message, setMessage] = useState("");
  const set = (name) => (value) => setDraft((old) => ({ ...old, [name]: value }));
  const field = (name) => (event) => set(name)(event.target.value);

  useEffect(() => {
    if (!parameters.value.rule) return;
    // The address has a draft that is not saved: everything else is as saved.
    const unsaved = parameters.value.text;
    const find = async () => get(rulePath(c, parameters.value.rule));
    find().then((rule) => {
      setSaved(rule);
      const tests = rule.payload?.tests ?? {};
      const lines = (events) => (events ?? []).map((event) => JSON.stringify(event)).join("\n");
      setDraft({
        rule: unsaved ?? (typeof rule.rule === "string" ? rule.rule : JSON.stringify(rule.rule)),
        logic: rule.logic,
        tags: rule.tags.join(", "),
        priority: rule.priority,
        valid_from: rule.valid_from ?? "",
        valid_until: rule.valid_until ?? "",
        must_match: lines(tests.must_match),
        must_not_match: lines(tests.must_not_match),
      });
    }, (error) => error.status !== 404 && setProblem(error));
  }, [c]);

  useLater(
    async (signal) => {
      remember({ rule: id, text: saved && draft.rule === saved.rule ? "" : draft.rule });
      if (!draft.rule.trim()) return setMeaning(null), setProblem(null);
      try {
        setMeaning(await post(path(c, "describe"), { rule: draft.rule, logic: draft.logic }, signal));
        setProblem(null);
      } catch (error) {
        if (error.name === "AbortError") return;
        setProblem(error);
        setMeaning(null);
      }
    },
    120,
    [draft.rule, draft.logic, c],
  );

  const complete = useCompletion(c);
  const body = () => {
    const read = (text) => text.split("\n").filter((line) => line.trim()).map((line) => JSON.parse(line));
    const tests = { must_match: read(draft.must_match), must_not_match: read(draft.must_not_match) };
    const hasTests = tests.must_match.length + tests.must_not_match.length > 0;
    const { tests: _, ...others } = saved?.payload ?? {};
    const payload = hasTests ? { ...others, tests } : Object.keys(others).length ? others : (saved?.payload?.tests ? null : saved?.payload ?? null);
    const rule = draft.rule.trimStart().startsWith("{") ? JSON.parse(draft.rule) : draft.rule;
    return {
      rule,
      logic: draft.logic,
      tags: split(draft.tags),
      priority: Number(draft.priority) || 0,
      valid_from: draft.valid_from || null,
      valid_until: draft.valid_until || null,
      payload,
      ...(saved?.weights?.length ? { weights: saved.weights } : {}),
    };
  };
  const save = async (event) => {
    event?.preventDefault();
    try {
      const rule = await send("PUT", rulePath(c, id), body());
      setSaved(rule);
      setProblem(null);
      setMessage(`Saved as ${id}.`);
    } catch (error) {
      setProblem(error);
      setMessage("");
    }
  };
  const remove = async () => {
    if (!confirm(`Remove the rule ${id}?`)) return;
    try {
      await send("DELETE", rulePath(c, id));
      go("rules");
    } catch (error) {
      setProblem(error);
    }
  };

  return html`<form
    class="write"
    onSubmit=${save}
    onKeyDown=${(event) => event.key === "Enter" && (event.ctrlKey || event.metaKey) && save(event)}
  >
    <div class="row">
      <label class="grow">Id <input value=${id} onInput=${(e) => setId(e.target.value)} required /></label>
      <label>Logic
        <select value=${draft.logic} onChange=${field("logic")}>
          <option>strong</option><option>weak</option>
        </select>
      </label>
      <label>Priority <input type="number" value=${draft.priority} onInput=${field("priority")} /></label>
    </div>
    <${RuleEditor} value=${draft.rule} onChange=${set("rule")} complete=${complete} problem=${problem?.problem} />
    <${ErrorBox} error=${problem} />
    ${meaning && html`<section aria-label="What it means"><h2>What it means</h2>
      <pre class="words">${meaning.words}</pre></section>`}
    <details>
      <summary>Tags, validity and tests</summary>
      <label>Tags <input value=${draft.tags} onInput=${field("tags")} placeholder="gold, eu" /></label>
      <div class="row">
        <label>Valid from <input value=${draft.valid_from} onInput=${field("valid_from")} placeholder="2027-01-01T00:00:00Z" /></label>
        <label>Valid until <input value=${draft.valid_until} onInput=${field("valid_until")} /></label>
      </div>
      <label>Events that it must match, one a line
        <textarea rows="3" value=${draft.must_match} onInput=${field("must_match")} placeholder='{"age": 18}'></textarea>
      </label>
      <label>Events that it must not match
        <textarea rows="3" value=${draft.must_not_match} onInput=${field("must_not_match")}></textarea>
      </label>
    </details>
    <div class="row">
      <button disabled=${readOnly.value || !meaning || !id}>Save <kbd>Ctrl</kbd>+<kbd>Enter</kbd></button>
      ${saved && !readOnly.value && html`<button type="button" class="danger" onClick=${remove}>Remove</button>`}
      <${Copy}
        items=${{
          curl: () => asCurl("PUT", rulePath(c, id), body()),
          Python: () => asPython(c, "add", id, draft.rule),
        }}
      />
      <span role="status">${message}</span>
    </div>
    ${readOnly.value && html`<p class="quiet">This server is read-only: drafts can be tried, not saved.</p>`}
    ${meaning && html`<${Relatives} rule=${draft.rule} own=${id} />`}
    ${meaning && html`<${Backtest} rule=${draft.rule} id=${saved ? id : null} />`}
    <${Import} use=${(found) => { setId(String(found.id)); set("rule")(typeof found.rule === "string" ? found.rule : JSON.stringify(found.rule)); }} />
  </form>`;
}

function useCompletion(c) {
  const known = useRef(null);
  useEffect(() => {
    known.current = get(path(c, "attributes")).then((found) => found.attributes, () => []);
  }, [c]);
  return useMemo(
    () => async (context) => {
      const value = context.matchBefore(/("[^"]+"|`[^`]+`|[\w.]+)\s*(=|<>|IN\s*\((?:[^()]*,)?)\s*'?[^'\s,()]*$/i);
      if (value) {
        const attribute = value.text.match(/^("[^"]+"|`[^`]+`|[\w.]+)/)[0].replace(/^["`]|["`]$/g, "");
        const typed = context.matchBefore(/'?[^'\s,()=<>]*$/);
        const found = await get(`${path(c, `attributes/${encodeURIComponent(attribute)}`)}`).catch(() => null);
        const options = (found?.values ?? []).slice(0, 200).map((each) => ({
          label: typeof each === "string" ? quote(each) : String(each),
          type: "constant",
        }));
        return options.length ? { from: typed.from, options } : null;
      }
      const word = context.matchBefore(/[\w.]+$/);
      if (!word && !context.explicit) return null;
      const uses = await known.current;
      return {
        from: word ? word.from : context.pos,
        options: [
          ...uses.map((use) => ({
            label: use.attribute,
            apply: /^[A-Za-z_][\w.]*$/.test(use.attribute) ? use.attribute : `"${use.attribute}"`,
            type: "property",
            detail: `${use.predicates} predicates`,
          })),
          ...["AND", "OR", "NOT", "IN", "BETWEEN", "LIKE", "IS NULL", "IS NOT NULL"].map((label) => ({ label, type: "keyword" })),
        ],
      };
    },
    [c],
  );
}

function Relatives({ rule, own }) {
  const [found, setFound] = useState(null);
  const c = collection.value;
  useLater(
    async (signal) => {
      try {
        setFound((await post(path(c, "similar"), { rule: asRule(rule), n: 8 }, signal)).rules);
      } catch {
        setFound(null);
      }
    },
    600,
    [rule, c],
  );
  const others = (found ?? []).filter((each) => String(each.rule) !== own && each.similarity > 0);
  if (!others.length) return null;
  return html`<section aria-label="Related rules">
    <h2>Rules that match much the same events</h2>
    <ul>
      ${others.map(
        (each) => html`<li>
          <a href=${address("write", { rule: each.rule })}>${shorten(each.rule, 80)}</a>${" "}
          ${each.implies && each.implied
            ? "says the same"
            : each.implied
              ? "is implied by this rule"
              : each.implies
                ? "implies this rule"
                : `${Math.round(100 * each.similarity)} % of the events in common`}
        </li>`,
      )}
    </ul>
  </section>`;
}

const asRule = (text) => (text.trimStart().startsWith("{") ? JSON.parse(text) : text);

function Backtest({ rule, id }) {
  const [found, setFound] = useState(null);
  const [error, setError] = useState(null);
  const [runs, setRuns] = useState(false);
  const run = async () => {
    setRuns(true);
    try {
      const report = await post(path(collection.value, "backtest"), { id: id ?? "draft", rule: asRule(rule) });
      setFound({ ...report.rules[0], events: report.events });
      setError(null);
    } catch (problem) {
      setError(problem);
      setFound(null);
    }
    setRuns(false);
  };
  useEffect(() => setFound(null), [rule]);
  return html`<section aria-label="Backtest">
    <h2>On past events</h2>
    <button type="button" onClick=${run} disabled=${runs}>${runs ? "Running…" : "Run a backtest"}</button>
    <${ErrorBox} error=${error} />
    ${found &&
    html`<p role="status">
        Matches <strong>${found.matches.toLocaleString("en")}</strong> of ${count(found.events, "published event")}.
        ${found.before != null &&
        html` Against the saved version: <span class="gained">${count(found.gained, "event")} gained</span>,
          ${" "}<span class="lost">${found.lost.toLocaleString("en")} lost</span>.`}
      </p>
      <${Histogram} bins=${found.bins.map((bin) => ({ start: bin.start, count: bin.matches }))} />
      <${Samples} title="Samples" events=${found.samples} />
      <${Samples} title="Gained" events=${found.gained_samples} />
      <${Samples} title="Lost" events=${found.lost_samples} />`}
  </section>`;
}

function Samples({ title, events }) {
  if (!events.length) return null;
  return html`<details><summary>${title}</summary>
    <ul class="samples">
      ${events.map((each) => html`<li>${each.number}: <code>${shorten(JSON.stringify(each.event), 400)}</code></li>`)}
    </ul>
  </details>`;
}

function Import({ use }) {
  const [system, setSystem] = useState("sigma");
  const [text, setText] = useState("");
  const [found, setFound] = useState(null);
  const [error, setError] = useState(null);
  const read = async () => {
    try {
      setFound(await post("/v1/import", { system, text }));
      setError(null);
    } catch (problem) {
      setError(problem);
      setFound(null);
    }
  };
  return html`<details>
    <summary>Paste a rule of another system</summary>
    <div class="row">
      <label>System
        <select value=${system} onChange=${(e) => setSystem(e.target.value)}>
          ${SYSTEMS.map((name) => html`<option>${name}</option>`)}
        </select>
      </label>
      <button type="button" onClick=${read}>Read it</button>
    </div>
    <label><span class="sr-only">Rule of another system</span>
      <textarea rows="8" value=${text} onInput=${(e) => setText(e.target.value)}></textarea>
    </label>
    <${ErrorBox} error=${error} />
    <ul>
      ${found?.rules.map(
        (rule) => html`<li>
          <button type="button" class="small" onClick=${() => use(rule)}>Use ${shorten(rule.id, 60)}</button>${" "}
          <code>${shorten(typeof rule.rule === "string" ? rule.rule : JSON.stringify(rule.rule))}</code>
        </li>`,
      )}
      ${found?.refused.map((each) => html`<li class="error">${shorten(each.id, 60)}: ${each.message}</li>`)}
    </ul>
  </details>`;
}
