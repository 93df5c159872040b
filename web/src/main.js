// The workbench: a page where people see their rules work.
import "./style.css";
import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import "@preact/signals";
import { get, key, needsKey, path, send, setKey } from "./api.js";
import { html } from "./html.js";
import { Empty, ErrorBox } from "./parts.js";
import {
  VIEWS,
  address,
  collection,
  collections,
  go,
  readAddress,
  readOnly,
  theme,
  view,
} from "./state.js";
import { Index } from "./views/index.js";
import { Live } from "./views/live.js";
import { Rules } from "./views/rules.js";
import { Try } from "./views/try.js";
import { Write } from "./views/write.js";

const TITLES = { try: "Try", write: "Write", rules: "Rules", live: "Live", index: "Index" };
const PAGES = { try: Try, write: Write, rules: Rules, live: Live, index: Index };
const THEMES = { auto: "light", light: "dark", dark: "auto" };

async function loadCollections() {
  const [list, health] = await Promise.all([get("/v1/collections"), get("/health")]);
  readOnly.value = health.read_only;
  collections.value = list.collections;
  const names = list.collections.map((each) => each.name);
  if (!names.includes(collection.value)) collection.value = names[0] ?? "";
}

function Header() {
  return html`<header>
    <a class="skip" href="#main">Skip to the content</a>
    <span class="logo">Tamis</span>
    <nav aria-label="Views">
      ${VIEWS.map(
        (name, number) => html`<a
          href=${address(name)}
          aria-current=${view.value === name ? "page" : undefined}
          title=${`Alt+${number + 1}`}
          >${TITLES[name]}</a
        >`,
      )}
    </nav>
    <label class="pick">
      <span class="sr-only">Collection</span>
      <select
        value=${collection.value}
        onChange=${(event) => {
          collection.value = event.target.value;
          go(view.value);
        }}
      >
        ${(collections.value ?? []).map(
          (each) => html`<option value=${each.name}>${each.name} (${each.rules.toLocaleString("en")})</option>`,
        )}
      </select>
    </label>
    <button
      type="button"
      class="small"
      onClick=${() => (theme.value = THEMES[theme.value])}
      aria-label=${`Theme: ${theme.value}`}
    >
      ${{ auto: "◐", light: "☀", dark: "☾" }[theme.value]}
    </button>
    <a class="quiet" href="/api">API</a>
  </header>`;
}

function AskForKey() {
  const [text, setText] = useState(key.value);
  return html`<form
    class="empty"
    onSubmit=${(event) => {
      event.preventDefault();
      setKey(text);
      location.reload();
    }}
  >
    <h2>This server asks for a key</h2>
    <p>An operator makes one with <code>tamis keys create</code>. It stays in this tab.</p>
    <label>Key <input type="password" value=${text} onInput=${(e) => setText(e.target.value)} /></label>
    <button>Use it</button>
  </form>`;
}

function FirstCollection() {
  const [name, setName] = useState("rules");
  const [error, setError] = useState(null);
  const create = async (event) => {
    event.preventDefault();
    try {
      await send("PUT", path(name), {});
      await loadCollections();
      collection.value = name;
      go("write");
    } catch (problem) {
      setError(problem);
    }
  };
  return html`<${Empty} title="Nothing here yet">
    <p>A collection holds rules. An event is matched against all rules of a collection at once.</p>
    <form onSubmit=${create}>
      <label>Name of the first one
        <input value=${name} onInput=${(e) => setName(e.target.value)} required />
      </label>
      <button>Create it</button>
    </form>
    <${ErrorBox} error=${error} />
  <//>`;
}

function App() {
  const [error, setError] = useState(null);
  useEffect(() => {
    loadCollections().catch(setError);
  }, []);
  const Page = PAGES[view.value];
  let content;
  if (needsKey.value) content = html`<${AskForKey} />`;
  else if (error) content = html`<${ErrorBox} error=${error} />`;
  else if (collections.value === null) content = html`<p class="quiet">Loading…</p>`;
  else if (!collection.value) content = html`<${FirstCollection} />`;
  else content = html`<${Page} key=${`${view.value} ${collection.value}`} />`;
  return html`<${Header} />
    <main id="main" tabindex="-1"><h1 class="sr-only">${TITLES[view.value]}</h1>${content}</main>`;
}

addEventListener("hashchange", readAddress);
addEventListener("keydown", (event) => {
  const number = Number(event.key);
  if (event.altKey && number >= 1 && number <= VIEWS.length) {
    event.preventDefault();
    go(VIEWS[number - 1]);
  }
});
readAddress();
render(html`<${App} />`, document.getElementById("app"));
