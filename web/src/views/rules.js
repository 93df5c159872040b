// Rules: search, tags, order, validity, and whether their tests pass.
import { useEffect, useRef, useState } from "preact/hooks";
import { asCurl, asPython, get, path, post } from "../api.js";
import { html } from "../html.js";
import { Copy, Empty, ErrorBox, Scroll, Tags, Tree, count, shorten } from "../parts.js";
import { address, collection, parameters, remember } from "../state.js";

const ORDERS = { added: "Added", priority: "Priority", matches: "Matches", last: "Last matched" };

function validity(rule, now = Date.now()) {
  if (rule.valid_until && Date.parse(rule.valid_until) <= now) return ["ended", `ended ${rule.valid_until}`];
  if (rule.valid_from && Date.parse(rule.valid_from) > now) return ["waiting", `from ${rule.valid_from}`];
  return ["", rule.valid_until ? `until ${rule.valid_until}` : ""];
}

export function Rules() {
  const c = collection.value;
  const [search, setSearch] = useState(parameters.value.search ?? "");
  const [tag, setTag] = useState(parameters.value.tag ?? "");
  const [order, setOrder] = useState(parameters.value.order ?? "added");
  const [pages, setPages] = useState({ rules: [], next: null, loaded: false });
  const [activity, setActivity] = useState({});
  const [report, setReport] = useState(null);
  const [error, setError] = useState(null);
  const field = useRef(null);
  const number = useRef(0);
  const query = (after) => {
    const wanted = new URLSearchParams({ limit: 100 });
    if (search) wanted.set("search", search);
    if (tag) wanted.set("tag", tag);
    if (order !== "added") wanted.set("order", order);
    if (after) wanted.set("after", after);
    return `${path(c, "rules")}?${wanted}`;
  };
  const load = async (before) => {
    const mine = ++number.current;
    try {
      let page = await get(query(before?.next));
      const rules = [...(before?.rules ?? []), ...page.rules];
      // A page of a search may be short although more follow.
      while (page.next && rules.length === (before?.rules.length ?? 0)) {
        if (mine !== number.current) return;
        page = await get(query(page.next));
        rules.push(...page.rules);
      }
      if (mine !== number.current) return;
      setPages({ rules, next: page.next, loaded: true });
      setError(null);
    } catch (problem) {
      setError(problem);
    }
  };
  useEffect(() => {
    remember({ search, tag, order });
    const timer = setTimeout(() => load(null), search ? 150 : 0);
    return () => clearTimeout(timer);
  }, [search, tag, order, c]);
  useEffect(() => {
    get(path(c, "activity")).then((found) => setActivity(Object.fromEntries(found.rules.map((each) => [each.rule, each]))), () => {});
    post(path(c, "test"), {}).then(setReport, () => {});
  }, [c]);
  useEffect(() => {
    const focus = (event) => {
      if (event.key === "/" && !/INPUT|TEXTAREA|SELECT/.test(event.target.tagName)) {
        event.preventDefault();
        field.current.focus();
      }
    };
    addEventListener("keydown", focus);
    return () => removeEventListener("keydown", focus);
  }, []);

  const failed = new Map((report?.failures ?? []).map((failure) => [failure.rule, failure]));
  if (pages.loaded && !pages.rules.length && !search && !tag) {
    return html`<${Empty} title="No rules yet">
      <p>A rule is a condition on events, like the WHERE clause of SQL.</p>
      <a class="button" href=${address("write")}>Write the first rule</a>
      <p>Or load a file: <code>curl --data-binary @rules.jsonl -H 'Content-Type: application/jsonl' ${location.origin}${path(c, "rules")}</code></p>
    <//>`;
  }
  return html`<div class="row filters">
      <label class="grow">Search (press <kbd>/</kbd>)
        <input ref=${field} type="search" placeholder="an id, or part of a rule" value=${search}
          onInput=${(e) => setSearch(e.target.value)} /></label>
      <label>Tag
        <input placeholder="any" value=${tag} onInput=${(e) => setTag(e.target.value)} /></label>
      <label>Order
        <select value=${order} onChange=${(e) => setOrder(e.target.value)}>
          ${Object.entries(ORDERS).map(([name, title]) => html`<option value=${name}>${title}</option>`)}
        </select></label>
      <a class="button" href=${address("write")}>New rule</a>
    </div>
    <${ErrorBox} error=${error} />
    ${report && report.tests > 0 &&
    html`<p role="status" class=${report.failures.length ? "lost" : "gained"}>
      ${count(report.tests, "test")} of rules: ${report.failures.length ? `${report.failures.length} failed` : "all passed"}</p>`}
    <${Scroll} label="Rules"><table class="stack">
      <thead><tr><th scope="col">Id</th><th scope="col">Rule</th><th scope="col">Priority</th>
        <th scope="col">Matches</th><th scope="col">Last matched</th><th scope="col">Validity</th></tr></thead>
      <tbody>
        ${pages.rules.map((rule) => {
          const [state, words] = validity(rule);
          const failure = failed.get(rule.id);
          return html`<tr key=${rule.id} class=${`${state} ${failure ? "broken" : ""}`}>
            <th scope="row"><a href=${address("write", { rule: rule.id })}>${shorten(rule.id, 60)}</a></th>
            <td><code>${shorten(typeof rule.rule === "string" ? rule.rule : JSON.stringify(rule.rule))}</code>
              <${Tags} tags=${rule.tags} />
              ${failure && html`<details><summary>A test failed</summary><p>${shorten(failure.message, 600)}</p>
                ${failure.explanation && html`<ul class="tree"><${Tree} node=${failure.explanation} /></ul>`}</details>`}</td>
            <td data-label="Priority">${rule.priority || ""}</td>
            <td data-label="Matches">${activity[rule.id]?.matches?.toLocaleString("en") ?? ""}</td>
            <td data-label="Last matched">${activity[rule.id]?.last?.replace("T", " ").slice(0, 19) ?? ""}</td>
            <td data-label="Validity">${words}</td>
          </tr>`;
        })}
      </tbody>
    </table><//>
    ${pages.loaded && !pages.rules.length && html`<p>Nothing found.</p>`}
    ${order !== "added" && pages.rules.length === 100 && html`<p class="quiet">The first 100 in this order are shown; search to see others.</p>`}
    ${pages.next && html`<button type="button" onClick=${() => load(pages)}>Show more</button>`}
    <${Copy} items=${{ curl: () => asCurl("GET", query()), Python: () => asPython(c, "rules") }} />`;
}
