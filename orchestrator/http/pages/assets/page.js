// Keyboard, filters, undo and what is live. Pages work without it; it makes no markup from text.
"use strict";
const root = document.documentElement;
root.classList.add("js");
const one = (selector, within = document) => within.querySelector(selector);
const all = (selector, within = document) => [...within.querySelectorAll(selector)];
const make = (tag, css, text) => {
  const element = document.createElement(tag);
  if (css) element.className = css;
  if (text) element.textContent = text;
  return element;
};

// a list that is walked with j and k: rows of a table, or items of which the current one is open
const list = one("[data-walk]");
const steps = () => (list ? all(list.dataset.walk, list).filter((each) => !each.hidden) : []);
const marker = list && list.tagName === "TABLE" ? "aria-selected" : "aria-current";
const current = () => steps().find((each) => each.getAttribute(marker) === "true");

function choose(item, { focus = true } = {}) {
  if (!item) return;
  for (const each of all(list.dataset.walk, list)) each.removeAttribute(marker);
  item.setAttribute(marker, "true");
  if (focus) {
    const target = one("h3[tabindex], a", item);
    if (target) target.focus({ preventScroll: true });
    item.scrollIntoView({ block: "nearest" });
  }
  peek(item);
}

function walk(by) {
  const items = steps();
  const place = items.indexOf(current());
  choose(items[Math.min(items.length - 1, Math.max(0, place + by))]);
}

function peek(row) {
  const pane = one("#peek");
  const template = row && row.dataset.peek && document.getElementById(row.dataset.peek);
  if (pane && template) pane.replaceChildren(template.content.cloneNode(true));
}

if (list) {
  list.addEventListener("click", (event) => {
    const item = event.target.closest(list.dataset.walk);
    if (item && !event.target.closest("a, button, input, textarea, select, label")) choose(item, { focus: false });
  });
  list.addEventListener("focusin", (event) => {
    const item = event.target.closest(list.dataset.walk);
    if (item && item !== current()) choose(item, { focus: false });
  });
  const hash = location.hash && document.getElementById(location.hash.slice(1));
  const first = (hash && steps().includes(hash) && hash) || current() || steps()[0];
  if (first) choose(first, { focus: false });
}

// a decision is sent at once, and can be taken back while the server waits with it
const WAIT = 8000;
let last = null;

async function send(address, form) {
  try {
    return await fetch(address, { method: "POST", body: new URLSearchParams(new FormData(form)), keepalive: true, headers: { Accept: "application/json" } });
  } catch {
    return null;
  }
}

async function explain(answer) {
  if (!answer) return "hardwon does not answer: nothing was changed, and what you typed is still here.";
  try {
    return (await answer.json()).detail || "That was refused: load the page again.";
  } catch {
    return "That was refused: load the page again.";
  }
}

async function decide(form) {
  const item = form.closest(".item");
  const items = steps();
  const place = items.indexOf(item);
  item.hidden = true;
  count(-1);
  empty(item);
  choose(items[place + 1] || items[place - 1]);
  const answer = await send(form.action, form);
  if (!answer || !answer.ok) {
    const words = await explain(answer);
    if (!answer || answer.status !== 409) bring(item);
    say(words);
    return;
  }
  const { undo: address } = await answer.json();
  if (last) last.toast.remove();
  const toast = say(form.dataset.toast, undo);
  last = { address, form, item, toast };
  setTimeout(() => toast.remove(), WAIT);
}

function bring(item) {
  item.hidden = false;
  count(1);
  empty(item);
  choose(item);
}

async function undo() {
  if (!last) return;
  const { address, form, item, toast } = last;
  last = null;
  toast.remove();
  const answer = await send(address, form);
  if (answer && answer.ok) bring(item);
  else say(await explain(answer));
}

function count(by) {
  for (const number of all('[data-live="waiting"]')) number.textContent = Math.max(0, Number(number.textContent) + by);
}

function empty(item) {
  const section = item.closest("section");
  const blank = section && one("[data-when-empty]", section);
  if (blank) blank.hidden = all(".item", section).some((each) => !each.hidden);
}

function say(words, takeBack) {
  const toast = make("p", "toast", words);
  if (takeBack) {
    const button = make("button", "", "Undo");
    button.type = "button";
    button.addEventListener("click", takeBack);
    toast.append(button);
  } else {
    setTimeout(() => toast.remove(), WAIT);
  }
  one("#toasts").append(toast);
  return toast;
}

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.dataset.toast && form.closest(".item")) {
    event.preventDefault();
    decide(form);
  }
});
for (const toast of all("main > .toast")) setTimeout(() => toast.remove(), WAIT);

// filter the rows that are here while typing; Enter asks the server for all
const filter = one("[data-filters]");
if (filter) {
  const rows = all(filter.dataset.filters);
  const status = one("#shown");
  const none = one("#nothing");
  filter.addEventListener("input", () => {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
      shown += row.hidden ? 0 : 1;
    }
    if (status) status.textContent = `${shown} of ${rows.length} shown here; Enter searches all`;
    if (none) none.hidden = shown > 0;
    if (shown && !current()) choose(steps()[0], { focus: false });
  });
}

// what changes by itself, while somebody looks
const state = one("[data-state]");
async function refresh() {
  if (!state || document.hidden) return;
  try {
    const answer = await fetch(state.dataset.state, { headers: { Accept: "application/json" } });
    if (!answer.ok) return;
    const { waiting } = await answer.json();
    if (waiting !== null) for (const number of all('[data-live="waiting"]')) number.textContent = waiting;
  } catch {
    // the next time asks again
  }
}
setInterval(refresh, 30000);

// selects and checkboxes of a filter apply at once
for (const select of all("[data-applies]")) select.addEventListener("change", () => select.form.requestSubmit());

// keys
const typing = (target) => target.closest("input:not([type=checkbox]), textarea, select, [contenteditable]");
let goes = false;

function press(letter) {
  const item = current();
  const button = item && one(`[data-key="${letter}"]`, item);
  const field = button && button.form && one("textarea", button.form);
  if (field && !field.value.trim()) field.focus();
  else if (button) button.click();
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  const dialog = one("dialog[open]");
  if (event.key === "Escape" && typing(event.target)) {
    event.target.blur();
    return;
  }
  if (dialog || typing(event.target)) return;
  if (goes) {
    goes = false;
    const link = /^[a-z]$/.test(event.key) && one(`[data-go="${event.key}"]`);
    if (link) {
      event.preventDefault();
      link.click();
    }
    return;
  }
  const keys = {
    "/": () => one("#search") && one("#search").focus(),
    "?": () => one("#keys-help") && one("#keys-help").showModal(),
    g: () => { goes = true; setTimeout(() => { goes = false; }, 1500); },
    j: () => walk(1),
    k: () => walk(-1),
    a: () => press("a"),
    r: () => press("r"),
    z: undo,
    Enter: () => {
      const link = marker === "aria-selected" && !event.target.closest("a, button, summary") && current() && one("a", current());
      if (link) link.click();
      return Boolean(link);
    },
  };
  const act = keys[event.key];
  if (act && act() !== false) event.preventDefault();
});
for (const opener of all("[data-opens]")) opener.addEventListener("click", () => document.getElementById(opener.dataset.opens).showModal());
for (const again of all("[data-again]")) again.addEventListener("click", (event) => { event.preventDefault(); location.reload(); });
document.addEventListener("click", (event) => {
  for (const open of all("details.switch[open]")) if (!open.contains(event.target)) open.open = false;
});
