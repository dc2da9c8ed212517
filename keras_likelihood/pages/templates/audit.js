const PAGE_SIZE = 24;
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
// The number of the page of each section, from 0.
const pages = { suspected: 0, highest: 0, lowest: 0 };

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

function listing(name, rows) {
  const examples = rows.map((row) => example(name, row));
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

// The examples of a section that pass the filters, in their order.
function chosen(name) {
  const rows = data.sections[name].map((at) => data.rows[at]).filter(passes);
  const order = SORTS[state.sort][1];
  return order ? rows.sort((a, b) => order(a, b) || a.index - b.index) : rows;
}

const lastPage = (rows) => Math.max(Math.ceil(rows.length / PAGE_SIZE) - 1, 0);

function section(name) {
  const rows = chosen(name), last = lastPage(rows);
  pages[name] = Math.min(pages[name], last);
  const first = pages[name] * PAGE_SIZE;
  const hint = name === "suspected" && last ? " The worst come first: where the proposals stop being right, mark that row and accept all above it." : "";
  const text = count(name, rows.length) + hint;
  const made = element(
    "section",
    "",
    element("h2", "", HEADINGS[name]),
    element("p", "note", text[0].toUpperCase() + text.slice(1)),
  );
  made.id = name;
  if (rows.length) made.append(listing(name, rows.slice(first, first + PAGE_SIZE)));
  if (last) made.append(pager(name, last));
  return made;
}

function pager(name, last) {
  const go = (by, text) => {
    const made = button("", text, () => {
      turn(name, by);
      document.getElementById(name).scrollIntoView();
    });
    made.disabled = pages[name] + by < 0 || pages[name] + by > last;
    return made;
  };
  const where = element("span", "", `Page ${pages[name] + 1} of ${last + 1}`);
  return element("nav", "pager", go(-1, "\u2190 Previous"), where, go(1, "Next \u2192"));
}

// Returns whether there is such a page.
function turn(name, by) {
  const wanted = pages[name] + by;
  if (wanted < 0 || wanted > lastPage(chosen(name))) return false;
  pages[name] = wanted;
  draw();
  return true;
}

// Filters begin at the first page.
function drawAnew() {
  for (const name of Object.keys(pages)) pages[name] = 0;
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
    done && done === suspects.length ? " decided: export them" : " decided",
    element("span", "more-words", `. In all: ${shares.join(", ")}.`),
  );
  document.getElementById("kept").textContent = isStored
    ? "Decisions are kept in this browser until you export them."
    : "This browser keeps nothing for a file: your decisions are in the address of this page.";
  document.getElementById("export").disabled = !decisions.size;
  document.getElementById("undo").disabled = !undoable.length;
}

// Shows changed decisions wherever their examples stand.
function refresh(indices) {
  const changed = new Set(indices);
  for (const { row, update } of made.values()) if (changed.has(row.index)) update();
  updateLarge();
  remember();
  if (state.decision === "") report();
  else draw();
}

function change(index, decision, label = null) {
  decide([[index, { decision, label }]]);
  refresh([index]);
}

// A button pressed twice takes the decision back.
function choose(row, decision) {
  if (decisions.get(row.index)?.decision === decision) decision = null;
  change(row.index, decision, decision === "wrong" ? proposed(row) : null);
}

// All undecided suspects from the first page down to this one are wrong.
function acceptAbove(row) {
  const rows = chosen("suspected");
  const end = rows.indexOf(row) + 1;
  const open = rows.slice(0, end).filter(({ index }) => !decisions.has(index));
  if (!open.length) return;
  decide(open.map((one) => [one.index, { decision: "wrong", label: proposed(one) }]));
  refresh(open.map(({ index }) => index));
}

function takeBack() {
  const indices = undo();
  if (!indices.length) return;
  refresh(indices);
  const found = examples().find((node) => made.get(node.dataset.key).row.index === indices.at(-1));
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
    drawAnew();
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
  const hints = ["index", ...(classes ? ["label"] : [])];
  if (data.features.length) hints.push("unusual feature");
  if (has("text")) hints.push("text");
  text.placeholder = hints.join(", ");
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
  drawAnew();
}

controls();
load(recall());
show();
document.getElementById("export").addEventListener("click", download);
document.getElementById("undo").addEventListener("click", takeBack);
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
