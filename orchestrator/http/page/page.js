// The page of what is stored. All of it is inserted as text, never as markup.
"use strict";

const PAGE = 20;
const at = (id) => document.getElementById(id);
let last = null;
let turn = Promise.resolve(); // one after the other: two clicks must not list a page twice

function element(tag, text) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = String(text);
  return made;
}

async function request(method, path, body) {
  const headers = { "Hardwon-Workspace": encodeURIComponent(at("workspace").value) };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (at("key").value) headers["Authorization"] = "Bearer " + at("key").value;
  const answer = await fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
  const payload = await answer.json().catch(() => ({ detail: "the server answers " + answer.status + ", and not as hardwon does" }));
  if (answer.status === 401) at("ask-key").hidden = false;
  if (!answer.ok) throw new Error(payload.field ? payload.field + ": " + payload.detail : payload.detail);
  return payload;
}

function enqueue(work) {
  turn = turn.then(async () => {
    at("trouble").hidden = true;
    try {
      await work();
    } catch (error) {
      at("trouble").textContent = error.message;
      at("trouble").hidden = false;
    }
  });
}

function count(name, value) {
  const row = element("div");
  row.append(element("dt", name), element("dd", value === null || value === undefined ? "-" : value.toLocaleString()));
  return row;
}

function shown(pattern) {
  const projects = pattern.project_count === 1 ? "1 project" : pattern.project_count + " projects";
  const record = pattern.success_count + " of " + pattern.attempt_count + " attempts worked, " + projects;
  const item = element("li");
  const kind = element("small", [pattern.entry_type, pattern.technology, record].filter(Boolean).join(" · "));
  item.append(kind);
  for (const [name, text] of [["Problem", pattern.problem], ["Solution", pattern.solution], ["When", pattern.when_to_try]]) {
    item.append(element("strong", name), element("p", text));
  }
  return item;
}

async function counts() {
  const stats = await request("GET", "v1/stats");
  const entries = stats.entries;
  at("counts").replaceChildren(
    count("staged", entries.staged || 0),
    count("embedded", entries.embedded || 0),
    count("open", entries.open || 0),
    count("dead", entries.dead || 0),
    count("patterns", stats.patterns),
    count("projects", stats.projects),
  );
}

const ALARMS = {
  contradicts: "told another solution where a trusted one worked",
  repeats: "told one situation again and again",
  crowds: "crowds the situation of a task",
  fails: "told solutions that were shown and failed",
};

async function review() {
  let alarms = [];
  try {
    alarms = await request("GET", "v1/review/key-alarms");
  } catch {
    // a key that may not review sees the rest of the page
  }
  at("keys").replaceChildren(...alarms.map((alarm) => element("li", "Key " + alarm.key_id + " " + ALARMS[alarm.kind] + ": " + alarm.reports.toLocaleString())));
  at("review").hidden = !alarms.length;
}

async function more() {
  const found = await request("GET", "v1/patterns?limit=" + PAGE + (last ? "&after=" + last : ""));
  at("patterns").append(...found.patterns.map(shown));
  if (!last && !found.patterns.length) {
    at("patterns").append(element("li", "Nothing is known in this workspace yet: a checkpoint makes patterns of what was captured."));
  }
  last = found.patterns.length ? found.patterns[found.patterns.length - 1].pattern_id : last;
  at("more").hidden = found.patterns.length < PAGE;
}

async function everything() {
  last = null;
  at("patterns").replaceChildren();
  await counts();
  await more();
  await review();
}

async function context() {
  const body = { task: { description: at("task").value }, agent_type: at("agent").value };
  const built = await request("POST", "v1/contexts", body);
  at("context").textContent = built.text;
  at("context").hidden = false;
  at("degraded").textContent = built.degraded ? "Without what is known: " + built.degraded : "";
  at("degraded").hidden = !built.degraded;
  at("shown").replaceChildren(...built.patterns.map(shown));
}

function on(id, event, work) {
  at(id).addEventListener(event, (happened) => {
    happened.preventDefault();
    enqueue(work);
  });
}

on("who", "submit", everything);
on("ask", "submit", context);
on("more", "click", more);
enqueue(everything);
