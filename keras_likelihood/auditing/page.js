const FIRST_CARDS = 24, FIRST_LINES = 12;
const scoreName = data.columns[SCORE].name;
const HEADINGS = {
  suspected: classes ? "Suspected label errors" : "Suspected bad targets",
  highest: "Highest scores",
  lowest: "Lowest scores",
};
const byValue = (column) => (a, b) => a.values[column] - b.values[column];
const SORTS = {
  "": ["as ranked", null],
  score: [`${scoreName}, highest first`, (a, b) => byValue(SCORE)(b, a)],
  "score-up": [`${scoreName}, lowest first`, byValue(SCORE)],
  quality: ["quality, lowest first", (a, b) => a.quality - b.quality],
  label: [classes ? "given label" : "target", byValue(GIVEN)],
  predicted: [classes ? "predicted label" : "prediction", byValue(PREDICTED)],
  index: ["index", (a, b) => a.index - b.index],
};
const CHOICES = [
  ["", "all"], ["undecided", "undecided"], ["wrong", "wrong"],
  ["right", "right"], ["unsure", "unsure"],
];
const NOTHING = {
  label: "", predicted: "", text: "", suspected: "", sort: "", decision: "",
};
let state = { ...NOTHING };
const expanded = new Set();

function searched(row) {
  const words = [row.index, shown(row, GIVEN), shown(row, PREDICTED)];
  return [...words, row.unusual || "", row.text || ""].join(" ").toLowerCase();
}

function passes(row) {
  const decision = decisions.get(row.index)?.decision ?? "undecided";
  return (
    (state.label === "" || String(row.values[GIVEN]) === state.label) &&
    (state.predicted === "" ||
      String(row.values[PREDICTED]) === state.predicted) &&
    (state.suspected === "" || row.suspected) &&
    (state.decision === "" || decision === state.decision) &&
    (state.text === "" || searched(row).includes(state.text.toLowerCase()))
  );
}

function isContactSheet(name) {
  return name !== "suspected" && data.rows.every((row) => row.image);
}

function listing(name, rows) {
  const isCard = isContactSheet(name);
  const examples = rows.map((row) => example(name, row, isCard));
  if (isCard) return element("ul", "cards", ...examples);
  const table = element(
    "table", "examples", headings(), element("tbody", "", ...examples),
  );
  const scroll = element("div", "scroll", table);
  // Reachable by keyboard, since it may be wider than the window.
  scroll.tabIndex = 0;
  scroll.setAttribute("role", "region");
  scroll.setAttribute("aria-label", HEADINGS[name]);
  return scroll;
}

function count(name, found) {
  const held = data.sections[name].length;
  const total = data.totals[name].toLocaleString("en-US");
  if (!held) return "None.";
  const filtered = found < held ? `${found} that match, of ` : "";
  if (held === data.totals[name]) return `${filtered}all ${total}.`;
  const which = name === "suspected" ? "worst" : name;
  return `${filtered}the ${which} ${held} of ${total}.`;
}

function section(name) {
  let rows = data.sections[name].map((at) => data.rows[at]).filter(passes);
  const order = SORTS[state.sort][1];
  if (order) rows = [...rows].sort((a, b) => order(a, b) || a.index - b.index);
  const first = isContactSheet(name) ? FIRST_CARDS : FIRST_LINES;
  const visible = expanded.has(name) ? rows : rows.slice(0, first);
  const text = count(name, rows.length);
  const made = element(
    "section",
    "",
    element("h2", "", HEADINGS[name]),
    element("p", "note", text[0].toUpperCase() + text.slice(1)),
  );
  made.id = name;
  if (rows.length) made.append(listing(name, visible));
  if (visible.length < rows.length) {
    made.append(button("more", `Show all ${rows.length}`, () => expand(name)));
  }
  return made;
}

function expand(name) {
  expanded.add(name);
  draw();
}

function draw() {
  const names = Object.keys(HEADINGS);
  document.getElementById("sections").replaceChildren(...names.map(section));
  report();
}

// How far the person has come.
function report() {
  const all = [...decisions.values()];
  const shares = Object.keys(LETTERS).map(
    (name) => `${all.filter((d) => d.decision === name).length} ${name}`,
  );
  const suspects = data.sections.suspected.map((at) => data.rows[at].index);
  const done = suspects.filter((index) => decisions.has(index)).length;
  const bar = document.querySelector("#review progress");
  bar.max = Math.max(suspects.length, 1);
  bar.value = done;
  document.getElementById("progress").replaceChildren(
    `${done} of ${suspects.length}`,
    element("span", "more-words", " suspects"),
    " decided",
    element("span", "more-words", `. In all: ${shares.join(", ")}.`),
  );
  document.getElementById("kept").textContent = isStored
    ? "Decisions are kept in this browser until you export them."
    : "This browser keeps nothing for a file: your decisions are in the address of this page.";
  document.getElementById("export").disabled = !decisions.size;
  document.getElementById("undo").disabled = !undoable.length;
}

// Shows a changed decision wherever its example stands.
function refresh(index) {
  for (const { row, update } of made.values()) if (row.index === index) update();
  updateLarge();
  remember();
  if (state.decision === "") report();
  else draw();
}

function change(index, decision, label) {
  decide(index, decision, label);
  refresh(index);
}

// A button pressed twice takes the decision back.
function choose(row, decision) {
  if (decisions.get(row.index)?.decision === decision) decision = null;
  change(row.index, decision, decision === "wrong" ? proposed(row) : null);
}

function takeBack() {
  const index = undo();
  if (index === null) return;
  refresh(index);
  const found = examples().find((node) => made.get(node.dataset.key).row.index === index);
  if (found) goTo(found);
}

function select(name, caption, options) {
  const made = element("select", "", ...options.map((pair) => option(...pair)));
  return control(name, caption, made);
}

function control(name, caption, input) {
  input.name = name;
  input.addEventListener("input", () => {
    state[name] = input.type === "checkbox" ? (input.checked ? "1" : "") : input.value;
    remember();
    draw();
  });
  const check = input.type === "checkbox";
  return check
    ? element("label", "check", input, caption)
    : element("label", "", caption, input);
}

function controls() {
  const form = document.getElementById("controls");
  form.addEventListener("submit", (event) => event.preventDefault());
  if (classes) {
    const names = [["", "any"], ...data.labels.map((name, i) => [String(i), name])];
    form.append(select("label", "Given label", names));
    form.append(select("predicted", "Predicted label", names));
  }
  form.append(select("decision", "Decision", CHOICES));
  const text = element("input", "");
  text.type = "search";
  text.placeholder = classes ? "index or label" : "index or feature";
  form.append(control("text", "Text", text));
  const sorts = Object.entries(SORTS).map(([key, [name]]) => [key, name]);
  form.append(select("sort", "Sort by", sorts));
  const box = element("input", "");
  box.type = "checkbox";
  form.append(control("suspected", "Suspected only", box));
  form.append(
    button("", "Reset", () => {
      state = { ...NOTHING };
      remember();
      show();
    }),
  );
}

// The address holds the filters, so that a link shows what its sender saw.
function remember() {
  const used = Object.entries(state).filter(([, value]) => value !== "");
  if (!isStored && decisions.size) used.push(["decided", written()]);
  history.replaceState(null, "", `#${new URLSearchParams(used)}`);
}

function recall() {
  const wanted = new URLSearchParams(location.hash.slice(1));
  for (const name of Object.keys(NOTHING)) state[name] = wanted.get(name) || "";
  if (!Object.hasOwn(SORTS, state.sort)) state.sort = "";
  return wanted.get("decided");
}

function show() {
  const form = document.getElementById("controls");
  for (const input of form.querySelectorAll("input, select")) {
    if (input.type === "checkbox") input.checked = state[input.name] !== "";
    else input.value = state[input.name];
  }
  draw();
}

controls();
load(recall());
show();
document.getElementById("export").addEventListener("click", download);
document.getElementById("undo").addEventListener("click", takeBack);
document.getElementById("digits").hidden = !classes || data.labels.length > 10;
document.addEventListener("keydown", onKey);
window.addEventListener("hashchange", () => {
  const decided = recall();
  if (!isStored) {
    if (decided) read(decided);
    remember();
  }
  show();
  document.getElementById("controls").scrollIntoView();
});
// Another window may show the same page.
window.addEventListener("storage", (event) => {
  if (event.key !== STORE) return;
  read(event.newValue);
  draw();
});
