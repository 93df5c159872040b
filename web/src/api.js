// Requests to the server that shows this page, and nowhere else.
import { signal } from "@preact/signals";

export const key = signal(sessionStorage.getItem("tamis-key") ?? "");
export const needsKey = signal(false);

export class Problem extends Error {
  constructor(problem, status) {
    super(problem.detail ?? problem.title ?? `status ${status}`);
    this.problem = problem;
    this.status = status;
  }
}

export function setKey(text) {
  key.value = text;
  sessionStorage.setItem("tamis-key", text);
  needsKey.value = false;
}

function headers(more) {
  return key.value ? { ...more, Authorization: `Bearer ${key.value}` } : more;
}

async function check(response) {
  if (response.ok) return response;
  if (response.status === 401) needsKey.value = true;
  let problem = {};
  try {
    problem = await response.json();
  } catch {}
  throw new Problem(problem, response.status);
}

export const path = (collection, rest) =>
  `/v1/collections/${encodeURIComponent(collection)}${rest ? `/${rest}` : ""}`;

export function rulePath(collection, id) {
  // However they are written, a browser takes them out of an address: another rule would be meant.
  if (id === "." || id === "..") {
    throw new Problem({ detail: `A browser cannot name the rule ${id}; the Python client can.` });
  }
  return path(collection, `rules/${encodeURIComponent(id)}`);
}

export async function get(url, signal) {
  const response = await check(await fetch(url, { headers: headers({}), signal }));
  return response.json();
}

export async function send(method, url, body, signal) {
  const response = await check(
    await fetch(url, {
      method,
      headers: headers(body === undefined ? {} : { "Content-Type": "application/json" }),
      body: body === undefined ? undefined : JSON.stringify(body),
      signal,
    }),
  );
  return response.status === 204 ? null : response.json();
}

export const post = (url, body, signal) => send("POST", url, body, signal);

// What a person would type to get the same answer.
export function asCurl(method, url, body) {
  const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;
  const lines = [`curl -X ${method} ${quoted(location.origin + url)}`];
  if (key.value) lines.push(`-H "Authorization: Bearer $TAMIS_KEY"`);
  if (body !== undefined) {
    lines.push("-H 'Content-Type: application/json'", `-d ${quoted(JSON.stringify(body))}`);
  }
  return lines.join(" \\\n  ");
}

export function asPython(collection, method, ...args) {
  const shown = args.map(toPython).join(", ");
  return [
    "from tamis.client import Client",
    "",
    `client = Client(${toPython(location.origin)}, collection=${toPython(collection)})`,
    `print(client.${method}(${shown}))`,
  ].join("\n");
}

export function toPython(value) {
  if (value === null) return "None";
  if (value === true) return "True";
  if (value === false) return "False";
  if (Array.isArray(value)) return `[${value.map(toPython).join(", ")}]`;
  if (typeof value === "object") {
    const entries = Object.entries(value);
    return `{${entries.map(([name, item]) => `${toPython(name)}: ${toPython(item)}`).join(", ")}}`;
  }
  return JSON.stringify(value);
}
