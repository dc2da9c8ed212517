// The decisions: index of the example to { decision, label }.
const decisions = new Map();
const undoable = [];
const LETTERS = { right: "r", wrong: "w", unsure: "u" };
const STORE = `keras-likelihood-audit-${data.audit}`;
const WRITTEN = /^(\d+)([rwu])(.*)$/;
let isStored = true;

const decisionOn = (row) => decisions.get(row.index)?.decision;

function isLabel(label) {
  if (!classes) return data.one_target && Number.isFinite(label);
  return Number.isInteger(label) && label >= 0 && label < data.labels.length;
}

function written() {
  const part = ([index, { decision, label }]) => `${index}${LETTERS[decision]}${label ?? ""}`;
  return [...decisions].map(part).join("_");
}

// Invalid decisions are skipped, because the address may contain anything.
function read(text) {
  decisions.clear();
  for (const part of (text || "").split("_")) {
    const [, index, letter, rest] = WRITTEN.exec(part) ?? [];
    const decision = Object.keys(LETTERS).find((k) => LETTERS[k] === letter);
    const label = rest === "" ? null : Number(rest);
    const fits = label === null || (decision === "wrong" && isLabel(label));
    if (decision && fits) decisions.set(Number(index), { decision, label });
  }
}

// If the browser has no storage for files, the address holds the decisions.
function stored(action) {
  try {
    action(localStorage);
    isStored = true;
  } catch {
    isStored = false;
  }
}

function proposed({ values }) {
  return classes && values[PREDICTED] !== values[GIVEN] ? values[PREDICTED] : null;
}

// Sets pairs of index and decision, and updates all views of the examples.
function put(pairs) {
  for (const [index, found] of pairs) {
    if (found?.decision) decisions.set(index, found);
    else decisions.delete(index);
  }
  stored((store) => store.setItem(STORE, written()));
  const changed = new Set(pairs.map(([index]) => index));
  for (const node of made.values()) if (changed.has(node.row.index)) node.update();
  updateLarge();
  remember();
  if (!state.decision) report();
  else draw();
}

// Decisions that were made together are undone together.
function decide(pairs) {
  undoable.push(pairs.map(([index]) => [index, decisions.get(index)]));
  put(pairs);
}

function change(row, decision, label = null) {
  decide([[row.index, { decision, label }]]);
}

// Pressing a button twice clears the decision.
function choose(row, decision) {
  if (decisionOn(row) === decision) change(row, null);
  else change(row, decision, decision === "wrong" ? proposed(row) : null);
}

// Marks all undecided suspects from the first page to this one as wrong.
function acceptAbove(row) {
  const rows = chosen("suspected");
  const above = rows.slice(0, rows.indexOf(row) + 1);
  const open = above.filter((one) => !decisionOn(one));
  const wrong = (one) => [one.index, { decision: "wrong", label: proposed(one) }];
  if (open.length) decide(open.map(wrong));
}

function takeBack() {
  const last = undoable.pop();
  if (!last) return;
  put(last);
  const found = examples().find((node) => node.row.index === last.at(-1)[0]);
  if (found) goTo(found);
}

// Spreadsheets run text that begins like a formula, and some split cells at
// semicolons.
function csvCell(value) {
  if (typeof value === "number") return String(value);
  let text = value.replace(/[;\s\0]+/g, " ").trim();
  if (/^[^\p{L}\p{N}"]/u.test(text)) text = `'${text}`;
  return `"${text.replaceAll('"', '""')}"`;
}

function csv() {
  const head = "index,decision,label,given,label_name,given_name,audit";
  const name = (value) => (classes ? data.labels[value] ?? "" : "");
  const lines = [...decisions].sort((a, b) => a[0] - b[0]).map(
    ([index, { decision, label }]) => {
      const given = rowOf.get(index)?.values[GIVEN];
      const labels = [label ?? "", given ?? "", name(label), name(given)];
      return [index, decision, ...labels, data.audit].map(csvCell).join(",");
    },
  );
  return [head, ...lines, ""].join("\r\n");
}

function download() {
  const file = new Blob([csv()], { type: "text/csv;charset=utf-8" });
  const href = URL.createObjectURL(file);
  element("a", { href, download: "decisions.csv" }).click();
  setTimeout(() => URL.revokeObjectURL(href), 1000);
  byId("apply").hidden = false;
  byId("apply").scrollIntoView({ block: "nearest" });
}
