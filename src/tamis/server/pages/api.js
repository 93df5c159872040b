// Shows /openapi.json as a list of operations, grouped by tag. Needs nothing from elsewhere.
"use strict";

function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

function showSchema(document_, content) {
  return Object.entries(content || {}).flatMap(([media, body]) => {
    const schema = body.schema || {};
    const name = (schema.$ref || "").split("/").pop();
    const shown = name ? document_.components.schemas[name] : schema;
    return [
      make("p", {}, make("code", {}, media), name ? ` ${name}` : ""),
      ...(shown && shown.properties ? [make("pre", {}, JSON.stringify(shown, null, 1))] : []),
    ];
  });
}

function showOperation(document_, path, method, operation) {
  const rows = (operation.parameters || []).map((parameter) =>
    make("tr", {},
      make("td", {}, make("code", {}, parameter.name)),
      make("td", { class: "dim" }, parameter.in),
      make("td", {}, parameter.description || parameter.schema.description || ""),
    ));
  const answers = Object.entries(operation.responses).map(([status, response]) =>
    make("tr", {}, make("td", {}, status), make("td", {}, response.description)));
  const success = Object.entries(operation.responses).find(([status]) => status < "300");
  const right = operation["x-right"];
  const details = make("details", { "data-text": `${method} ${path} ${operation.summary}`.toLowerCase() },
    make("summary", {},
      make("span", { class: "method" }, method.toUpperCase()),
      make("code", {}, path), " ", make("span", { class: "dim" }, operation.summary)),
    make("p", {}, operation.description || "", right ? ` Needs the right “${right}”.` : ""));
  if (rows.length) details.append(make("h4", {}, "Parameters"), make("table", {}, ...rows));
  if (operation.requestBody) {
    details.append(make("h4", {}, "Body"), ...showSchema(document_, operation.requestBody.content));
  }
  details.append(make("h4", {}, "Answers"), make("table", {}, ...answers));
  if (success) details.append(...showSchema(document_, success[1].content));
  return details;
}

async function show() {
  const document_ = await (await fetch("/openapi.json")).json();
  document.getElementById("about").textContent = document_.info.description;
  const groups = new Map();
  for (const [path, methods] of Object.entries(document_.paths)) {
    for (const [method, operation] of Object.entries(methods)) {
      const tag = operation.tags[0];
      if (!groups.has(tag)) groups.set(tag, []);
      groups.get(tag).push(showOperation(document_, path, method, operation));
    }
  }
  const main = document.getElementById("operations");
  main.replaceChildren(...[...groups].flatMap(([tag, shown]) => [make("h2", {}, tag), ...shown]));
  document.getElementById("filter").addEventListener("input", (event) => {
    const wanted = event.target.value.toLowerCase();
    for (const details of main.querySelectorAll("details")) {
      details.hidden = !details.dataset.text.includes(wanted);
    }
  });
}

show();
