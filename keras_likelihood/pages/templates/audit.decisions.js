// What the person decided: index of the example to { decision, label }.
const decisions = new Map();
const undoable = [];
const LETTERS = { right: "r", wrong: "w", unsure: "u" };
const STORE = `keras-likelihood-audit-${data.key}`;
const WRITTEN = /^(\d+)([rwu])(.*)$/;
let isStored = true;

function isLabel(label) {
  if (!classes) return data.one_target && Number.isFinite(label);
  return Number.isInteger(label) && label >= 0 && label < data.labels.length;
}

function written() {
  const parts = [...decisions].map(
    ([index, { decision, label }]) => `${index}${LETTERS[decision]}${label ?? ""}`,
  );
  return parts.join("_");
}

// Whatever is no decision is passed over: anyone can write an address.
function read(text) {
  decisions.clear();
  for (const part of (text || "").split("_")) {
    const found = WRITTEN.exec(part);
    if (!found) continue;
    const decision = Object.keys(LETTERS).find((k) => LETTERS[k] === found[2]);
    const label = found[3] === "" ? null : Number(found[3]);
    if (label !== null && (decision !== "wrong" || !isLabel(label))) continue;
    decisions.set(Number(found[1]), { decision, label });
  }
}

// Browsers may refuse storage to a file; then the address holds decisions.
function load(address) {
  try {
    read(localStorage.getItem(STORE));
  } catch {
    isStored = false;
    read(address);
  }
}

function save() {
  try {
    localStorage.setItem(STORE, written());
    isStored = true;
  } catch {
    isStored = false;
  }
}

function proposed(row) {
  const label = row.values[PREDICTED];
  return classes && label !== row.values[GIVEN] ? label : null;
}

function set(index, found) {
  if (found?.decision) decisions.set(index, found);
  else decisions.delete(index);
}

// Several decisions at once are taken back at once.
function decide(pairs) {
  undoable.push(pairs.map(([index]) => [index, decisions.get(index)]));
  for (const [index, found] of pairs) set(index, found);
  save();
}

// Returns the examples whose decisions were taken back.
function undo() {
  const last = undoable.pop() ?? [];
  for (const [index, before] of last) set(index, before);
  save();
  return last.map(([index]) => index);
}

// A spreadsheet runs text that begins like a formula, and some part cells at
// semicolons.
function csvCell(value) {
  if (typeof value === "number") return String(value);
  let text = value.replace(/[;\s\0]+/g, " ").trim();
  if (/^[^\p{L}\p{N}"]/u.test(text)) text = `'${text}`;
  return `"${text.replaceAll('"', '""')}"`;
}

function csv() {
  const head = "index,decision,label,given,label_name,given_name,audit";
  const lines = [...decisions].sort((a, b) => a[0] - b[0]).map(
    ([index, { decision, label }]) => {
      const given = rowOf.get(index)?.values[GIVEN];
      const name = (value) => (classes ? data.labels[value] ?? "" : "");
      const cells = [
        index, decision, label ?? "", given ?? "",
        name(label), name(given), data.audit,
      ];
      return cells.map(csvCell).join(",");
    },
  );
  return [head, ...lines, ""].join("\r\n");
}

function download() {
  const link = document.createElement("a");
  const file = new Blob([csv()], { type: "text/csv;charset=utf-8" });
  link.href = URL.createObjectURL(file);
  link.download = "decisions.csv";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  const apply = document.getElementById("apply");
  apply.hidden = false;
  apply.scrollIntoView({ block: "nearest" });
}
