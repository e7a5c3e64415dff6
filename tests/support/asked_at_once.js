// Runs a page's script, fires events at it without waiting, and tells what its elements are in the end.
"use strict";
const fs = require("fs");
const vm = require("vm");

// events: [id, event, { id: value typed before }]; answers: by what is in the request, [milliseconds, status, text]
const { events, answers } = JSON.parse(fs.readFileSync(0, "utf8"));
const listeners = {};
const byId = {};

function element(id) {
  const self = { id, value: "", hidden: true, textContent: "", children: [] };
  self.append = (...children) => self.children.push(...children);
  self.replaceChildren = (...children) => { self.children = children; };
  self.addEventListener = (event, work) => { listeners[id + " " + event] = work; };
  return self;
}

const sandbox = {
  document: { getElementById: (id) => (byId[id] ??= element(id)), createElement: (tag) => element(tag) },
  encodeURIComponent,
  fetch(path, { body }) {
    const [, [wait, status, text]] = Object.entries(answers).find(([part]) => (path + " " + (body ?? "")).includes(part));
    const answer = { status, ok: status < 400, json: async () => JSON.parse(text) };
    return new Promise((resolve) => setTimeout(() => resolve(answer), wait));
  },
};

vm.runInNewContext(fs.readFileSync(process.argv[2], "utf8"), sandbox);
setTimeout(() => {
  for (const [id, event, typed] of events) {
    for (const [of, value] of Object.entries(typed)) sandbox.document.getElementById(of).value = value;
    listeners[id + " " + event]({ preventDefault() {} });
  }
}, 50);
setTimeout(() => {
  const told = Object.values(byId).map(({ id, hidden, textContent, children }) => [id, { hidden, textContent, children: children.length }]);
  process.stdout.write(JSON.stringify(Object.fromEntries(told)));
}, 600);
