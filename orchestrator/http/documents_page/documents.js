"use strict";
// Everything is set as text: nothing that a document says is ever read as HTML.

const element = (id) => document.getElementById(id);
let answerId = null;
let latestTurn = 0;

function headers() {
  const key = element("key").value.trim();
  const fields = { "Content-Type": "application/json" };
  if (key) fields.Authorization = `Bearer ${key}`;
  return fields;
}

async function call(path, body) {
  const response = await fetch(path, { method: "POST", headers: headers(), body: JSON.stringify(body) });
  const payload = response.status === 204 ? null : await response.json().catch(() => null);
  if (!response.ok) throw new Error((payload && payload.detail) || `the server answers ${response.status}`);
  return payload;
}

function place(citation) {
  const parts = [citation.title];
  if (citation.section) parts.push(citation.section);
  if (citation.page) parts.push(`page ${citation.page}`);
  else if (citation.lines) parts.push(citation.lines[0] === citation.lines[1] ? `line ${citation.lines[0]}` : `lines ${citation.lines.join("-")}`);
  return parts.join(", ");
}

function source(citation) {
  const item = document.createElement("li");
  const details = document.createElement("details");
  const summary = document.createElement("summary");
  summary.textContent = place(citation);
  const quote = document.createElement("blockquote");
  const mark = document.createElement("mark");
  mark.textContent = citation.quote;
  quote.append(mark);
  details.append(summary, quote);
  if (/^https?:\/\//.test(citation.path)) {
    const link = document.createElement("a");
    link.href = citation.path;
    link.rel = "noopener noreferrer";
    link.textContent = "Open the document";
    details.append(link);
  }
  item.append(details);
  return item;
}

function show(answer) {
  answerId = answer.answer_id;
  element("text").textContent = answer.answer || answer.reason || "";
  element("manner").textContent = answer.status === "answered" && answer.extractive ? "Quoted word for word: no model wrote this." : "";
  element("sources").replaceChildren(...answer.citations.map(source));
  element("feedback").hidden = false;
  element("answer").hidden = false;
}

element("asking").addEventListener("submit", async (event) => {
  event.preventDefault();
  const turn = ++latestTurn;
  element("answer").hidden = true; // the last answer is not of this question
  element("state").textContent = "Looking …";
  try {
    const answer = await call("/api/ask", { question: element("question").value });
    if (turn !== latestTurn) return;
    show(answer);
    element("state").textContent = "";
  } catch (error) {
    if (turn === latestTurn) element("state").textContent = error.message;
  }
});

async function think(up) {
  if (!answerId) return;
  try {
    await call("/api/feedback", { answer_id: answerId, up });
    element("feedback").hidden = true;
    element("state").textContent = "Thank you.";
  } catch (error) {
    element("state").textContent = error.message;
  }
}
element("up").addEventListener("click", () => think(true));
element("down").addEventListener("click", () => think(false));
