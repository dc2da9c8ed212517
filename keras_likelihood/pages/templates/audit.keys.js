// The current example of keyboard commands: "section index".
let cursor = null;
const examples = () => [...document.querySelectorAll("#sections [data-key]")];
const current = () => examples().find((node) => node.dataset.key === cursor);

function point(node, isFocused) {
  for (const other of document.querySelectorAll("[aria-current]")) {
    other.ariaCurrent = null;
  }
  cursor = node.dataset.key;
  node.ariaCurrent = "true";
  if (isFocused) {
    node.focus({ preventScroll: true });
    node.scrollIntoView({ block: "nearest" });
  }
}

function goTo(node) {
  point(node, !large.open);
  if (large.open) enlarge(node.row);
}

// The example before or after the current one; turns the page if needed.
function neighbour(by) {
  const now = current();
  if (!now) return examples()[0];
  const home = now.closest("section");
  const mine = () => [...document.querySelectorAll(`#${home.id} [data-key]`)];
  if (mine().at(by > 0 ? -1 : 0) === now && turn(home.id, by)) {
    return mine().at(by > 0 ? 0 : -1);
  }
  const all = examples();
  return all[all.indexOf(now) + by] || now;
}

function step(by) {
  const next = neighbour(by);
  if (next) goTo(next);
}

function decideAndGoOn(row, decision, label) {
  const next = neighbour(1);
  change(row, decision, label);
  goTo(next);
}

function chooseLabel(row) {
  if (decisionOn(row) !== "wrong") choose(row, "wrong");
  (large.open ? large : current()).querySelector(".correction")?.focus();
}

// Without a current example the key goes to the first one.
const ofRow = (action) => () => (current() ? action(current().row) : step(1));
const KEYS = {
  j: () => step(1),
  k: () => step(-1),
  r: ofRow((row) => decideAndGoOn(row, "right")),
  w: ofRow((row) => decideAndGoOn(row, "wrong", proposed(row))),
  u: ofRow((row) => decideAndGoOn(row, "unsure")),
  l: ofRow(chooseLabel),
  c: () => current() && change(current().row, null),
  z: takeBack,
  a: () => current() && acceptAbove(current().row),
  e: () => {
    if (large.open) return large.close();
    if (!current()) step(1);
    if (current()) enlarge(current().row);
  },
};
// The number of a class sets the right label.
if (classes && data.labels.length <= 10) {
  data.labels.forEach((_, at) => {
    const isGiven = (row) => row.values[GIVEN] === at;
    KEYS[at] = ofRow((row) =>
      decideAndGoOn(row, ...(isGiven(row) ? ["right"] : ["wrong", at])),
    );
  });
}

function onKey(event) {
  if (event.target.closest("input, select, textarea")) {
    const now = large.open ? large : current();
    const leaves = event.key === "Escape" || event.key === "Enter";
    if (leaves && now && event.target.classList.contains("correction")) {
      event.preventDefault();
      now.focus();
    }
    return;
  }
  const key = event.key.toLowerCase();
  const isUndo = key === "z" && (event.ctrlKey || event.metaKey);
  if (!isUndo && (event.ctrlKey || event.metaKey || event.altKey)) return;
  if (!Object.hasOwn(KEYS, key)) return;
  KEYS[key]();
  event.preventDefault();
}
