// The API reference for people, made of openapi.json. Everything is inserted as text.
"use strict";

const METHODS = ["get", "post", "put", "delete"];
const at = (id) => document.getElementById(id);
let spec = null;

function element(tag, text, ...children) {
  const made = document.createElement(tag);
  if (text) made.textContent = String(text);
  made.append(...children);
  return made;
}

function table(names, rows) {
  const head = element("tr", "", ...names.map((name) => element("th", name)));
  const lines = rows.map((row) => element("tr", "", ...row.map((cell) => element("td", cell))));
  return element("table", "", element("thead", "", head), element("tbody", "", ...lines));
}

function named(reference) {
  return spec.components.schemas[reference.split("/").pop()];
}

function kind(schema) {
  if (schema.$ref) return named(schema.$ref).enum ? kind(named(schema.$ref)) : reference(schema.$ref);
  if (schema.enum) return schema.enum.join(" | ");
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  const several = schema.anyOf || schema.oneOf;
  if (several) return several.map(kind).join(" or ");
  if (schema.type === "array") return "list of " + kind(schema.items || {});
  return [schema.format || schema.type || "anything", limits(schema)].filter(Boolean).join(", ");
}

function reference(path) {
  return path.split("/").pop().split("__").pop();
}

function limits(schema) {
  const words = { minimum: "from", maximum: "to", minLength: "at least", maxLength: "at most", pattern: "like" };
  return Object.keys(words).filter((name) => name in schema).map((name) => words[name] + " " + schema[name]).join(" ");
}

function usual(schema) {
  return schema.default === undefined || schema.default === null ? "" : JSON.stringify(schema.default);
}

function body(operation) {
  if (!operation.requestBody) return [];
  const [media, content] = Object.entries(operation.requestBody.content)[0];
  const schema = content.schema.$ref ? named(content.schema.$ref) : content.schema;
  if (!schema.properties) return [element("h4", "Body, " + media)];
  const rows = Object.entries(schema.properties).map(([name, field]) => [
    name, kind(field), (schema.required || []).includes(name) ? "required" : usual(field), field.description || "",
  ]);
  const about = schema.description ? [element("p", schema.description)] : [];
  return [element("h4", "Body, " + media), ...about, table(["Field", "Type", "If left out", "Means"], rows)];
}

function parameters(operation) {
  if (!operation.parameters) return [];
  const rows = operation.parameters.map((each) => [
    each.name, each.in, kind(each.schema), each.required ? "required" : usual(each.schema), each.description || "",
  ]);
  return [element("h4", "Parameters"), table(["Name", "In", "Type", "If left out", "Means"], rows)];
}

function quoted(text) {
  return "'" + text.replaceAll("'", "'\\''") + "'";
}

function curl(method, path, operation) {
  const given = (operation.parameters || []).filter((each) => each.required);
  const value = (each) => encodeURIComponent(String([each.example ?? each.name].flat()[0]));
  let where = path;
  for (const each of given.filter((one) => one.in === "path")) where = where.replace("{" + each.name + "}", value(each));
  const query = given.filter((one) => one.in === "query").map((each) => each.name + "=" + value(each)).join("&");
  const parts = ["curl -X " + method.toUpperCase() + " " + quoted(location.origin + where + (query && "?" + query))];
  if ((operation.security || []).length) parts.push('-H "Authorization: Bearer $HARDWON_API_KEY"');
  if (operation.requestBody) {
    const [media, content] = Object.entries(operation.requestBody.content)[0];
    parts.push("-H " + quoted("Content-Type: " + media));
    parts.push(media === "application/json" ? "-d " + quoted(JSON.stringify(content.example)) : "--data-binary @FILE");
  }
  return [element("h4", "Ask"), element("pre", parts.join(" \\\n  "))];
}

function answers(operation) {
  const made = [];
  for (const [status, response] of Object.entries(operation.responses)) {
    const content = Object.entries(response.content || {})[0];
    if (Number(status) >= 400) continue;
    made.push(element("h4", "Answer " + status + (content ? ", " + content[0] : "")));
    if (content && content[1].example !== undefined) made.push(element("pre", JSON.stringify(content[1].example, null, 2)));
  }
  const problems = Object.entries(operation.responses).filter(([status]) => Number(status) >= 400);
  const rows = problems.map(([status, response]) => {
    const [content] = Object.values(response.content || {});
    return [status, response.description, content && content.example ? content.example.detail : ""];
  });
  return [...made, element("h4", "Problems"), table(["Status", "", "Such as"], rows)];
}

function shown(path, method, operation) {
  const title = element("summary", "", element("code", method.toUpperCase() + " " + path), element("span", " " + operation.summary));
  const parts = operation.description.split("\n\n").map((text) => element("p", text));
  const made = element("details", "", title, ...parts, ...parameters(operation), ...body(operation));
  made.append(...curl(method, path, operation), ...answers(operation));
  made.id = operation.operationId;
  return made;
}

function show() {
  const word = at("find").value.trim().toLowerCase();
  const groups = new Map();
  let found = 0;
  for (const [path, methods] of Object.entries(spec.paths)) {
    for (const method of METHODS.filter((name) => name in methods)) {
      const operation = methods[method];
      const text = [method, path, operation.summary, operation.description, operation.operationId].join(" ");
      if (!text.toLowerCase().includes(word)) continue;
      const tag = operation.tags[0];
      groups.set(tag, [...(groups.get(tag) || []), shown(path, method, operation)]);
      found += 1;
    }
  }
  const sections = [...groups].map(([tag, made]) => element("section", "", element("h2", tag), ...made));
  at("operations").replaceChildren(...sections);
  at("about").textContent = spec.info.summary + " " + found + " operations" + (word ? " with this word." : ".");
  const target = location.hash && at(decodeURIComponent(location.hash.slice(1)));
  if (target) target.open = true;
}

async function load() {
  const headers = at("key").value ? { Authorization: "Bearer " + at("key").value } : {};
  const answer = await fetch("openapi.json", { headers });
  if (answer.status === 401) at("ask-key").hidden = false;
  const document_ = await answer.json().catch(() => ({ detail: "the server answers " + answer.status }));
  if (!answer.ok) throw new Error(document_.detail);
  spec = document_;
}

async function tryLoad() {
  at("trouble").hidden = true;
  try {
    if (!spec) await load();
    show();
  } catch (error) {
    at("trouble").textContent = error.message;
    at("trouble").hidden = false;
  }
}

at("who").addEventListener("submit", (happened) => {
  happened.preventDefault();
  tryLoad();
});
at("find").addEventListener("input", () => spec && show());
tryLoad();
