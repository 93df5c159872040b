// What the page shows, kept in the address: #/try?c=demo&event=…
import { effect, signal } from "@preact/signals";

export const VIEWS = ["try", "write", "rules", "live", "index"];

export const view = signal("try");
export const parameters = signal({});
export const collection = signal("");
export const collections = signal(null);
export const readOnly = signal(false);
export const theme = signal(localStorage.getItem("tamis-theme") ?? "auto");

const LONGEST = 6000;

export function readAddress() {
  const [place, query] = location.hash.replace(/^#\/?/, "").split("?");
  view.value = VIEWS.includes(place) ? place : "try";
  const { c, ...rest } = Object.fromEntries(new URLSearchParams(query ?? ""));
  if (c) collection.value = c;
  parameters.value = rest;
}

export function address(place, more = {}) {
  const query = new URLSearchParams();
  if (collection.value) query.set("c", collection.value);
  for (const [name, value] of Object.entries(more)) {
    // A longer address would not survive being mailed or pasted.
    if (value !== "" && value != null && String(value).length <= LONGEST) query.set(name, value);
  }
  const text = query.toString();
  return `#/${place}${text ? `?${text}` : ""}`;
}

export function go(place, more = {}) {
  location.hash = address(place, more);
}

// Changes what the address says about the view that is shown, without a new entry in the history.
export function remember(more) {
  // An address that names another view is on its way there, and must not be called back.
  const [place] = location.hash.replace(/^#\/?/, "").split("?");
  if (VIEWS.includes(place) && place !== view.value) return;
  const next = { ...parameters.value, ...more };
  parameters.value = next;
  history.replaceState(null, "", address(view.value, next));
}

effect(() => {
  const chosen = theme.value;
  if (chosen === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = chosen;
  localStorage.setItem("tamis-theme", chosen);
});
