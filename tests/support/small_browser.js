// Runs the page's script against a document of nothing but elements and texts, and tells what it made.
"use strict";
const fs = require("fs");
const vm = require("vm");

const answers = JSON.parse(fs.readFileSync(0, "utf8"));
const made = { tags: [], texts: [], executed: [] };
const listeners = {};

function forbidden(name) {
  return { set() { made.executed.push(name); }, get() { return ""; } };
}

function element(tag) {
  const self = {
    tag, value: "x", hidden: false,
    append(...children) {
      for (const child of children) if (typeof child !== "object") made.executed.push("text node " + child);
    },
    replaceChildren(...children) { self.append(...children); },
    addEventListener(event, work) { listeners[self.id + " " + event] = work; },
  };
  Object.defineProperty(self, "textContent", { set(text) { made.texts.push(text); }, get() { return ""; } });
  for (const name of ["innerHTML", "outerHTML", "src", "href", "srcdoc", "onclick", "onerror"]) {
    Object.defineProperty(self, name, forbidden(name));
  }
  return self;
}

const byId = {};
const sandbox = {
  document: {
    getElementById(id) { return (byId[id] ??= Object.assign(element("#"), { id, value: id === "find" ? "" : "x" })); },
    createElement(tag) { made.tags.push(tag); return element(tag); },
    write(text) { made.executed.push("write " + text); },
  },
  location: { origin: "the-origin", hash: "" },
  alert(what) { made.executed.push("alert " + what); },
  encodeURIComponent,
  decodeURIComponent,
  fetch(path) {
    const told = answers[path.split("?")[0]];
    return Promise.resolve({ status: 200, ok: true, json: () => Promise.resolve(told) });
  },
};

vm.runInNewContext(fs.readFileSync(process.argv[2], "utf8"), sandbox);
setTimeout(() => {
  if (listeners["ask submit"]) listeners["ask submit"]({ preventDefault() {} });
  setTimeout(() => process.stdout.write(JSON.stringify(made)), 100);
}, 100);
