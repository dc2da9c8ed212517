// The key of the example that keys speak of: "section index".
let cursor = null;
const examples = () => [...document.querySelectorAll("#sections [data-key]")];
const current = () => examples().find((node) => node.dataset.key === cursor);

function point(node, isFocused) {
  for (const other of document.querySelectorAll("[aria-current]")) {
    other.removeAttribute("aria-current");
  }
  cursor = node.dataset.key;
  node.setAttribute("aria-current", "true");
  if (isFocused) {
    node.focus({ preventScroll: true });
    node.scrollIntoView({ block: "nearest" });
  }
}

function goTo(node) {
  point(node, !large.open);
  if (large.open) enlarge(made.get(node.dataset.key).row);
}

// The example before or behind the current one; turns the page at its end.
function neighbour(by) {
  const now = current();
  if (!now) return examples()[0];
  const home = now.closest("section");
  const mine = [...home.querySelectorAll("[data-key]")];
  if (mine.at(by > 0 ? -1 : 0) === now && turn(home.id, by)) {
    const turned = document.querySelectorAll(`#${home.id} [data-key]`);
    return turned[by > 0 ? 0 : turned.length - 1];
  }
  const all = examples();
  return all[all.indexOf(now) + by] || now;
}

function step(by) {
  const next = neighbour(by);
  if (next) goTo(next);
}

function decideAndGoOn(decision, label) {
  const now = current();
  if (!now) return step(1);
  const { row } = made.get(cursor);
  const next = neighbour(1);
  change(row.index, decision, label === undefined ? proposed(row) : label);
  goTo(next);
}

// The number of a class says what the label should be.
function chooseClass(number) {
  if (!classes || data.labels.length > 10 || number >= data.labels.length) return;
  if (!current()) return step(1);
  const isGiven = made.get(cursor).row.values[GIVEN] === number;
  decideAndGoOn(isGiven ? "right" : "wrong", isGiven ? null : number);
}

function chooseLabel() {
  const now = current();
  if (!now) return step(1);
  const { row } = made.get(cursor);
  if (decisions.get(row.index)?.decision !== "wrong") choose(row, "wrong");
  (large.open ? large : now).querySelector(".correction")?.focus();
}

const KEYS = {
  j: () => step(1),
  k: () => step(-1),
  r: () => decideAndGoOn("right", null),
  w: () => decideAndGoOn("wrong"),
  u: () => decideAndGoOn("unsure", null),
  l: chooseLabel,
  c: () => current() && change(made.get(cursor).row.index, null),
  z: takeBack,
  a: () => current() && acceptAbove(made.get(cursor).row),
  e: () => {
    if (large.open) return large.close();
    if (!current()) step(1);
    if (current()) enlarge(made.get(cursor).row);
  },
};

function onKey(event) {
  if (event.target.closest("input, select, textarea")) {
    if (event.key === "Escape" || event.key === "Enter") {
      const now = large.open ? large : current();
      if (event.target.classList.contains("correction") && now) {
        event.preventDefault();
        now.focus();
      }
    }
    return;
  }
  const key = event.key.toLowerCase();
  const isUndo = key === "z" && (event.ctrlKey || event.metaKey);
  if (!isUndo && (event.ctrlKey || event.metaKey || event.altKey)) return;
  if (/^\d$/.test(key)) chooseClass(Number(key));
  else if (Object.hasOwn(KEYS, key)) KEYS[key]();
  else return;
  event.preventDefault();
}
