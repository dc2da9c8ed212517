const PAGE_SIZE = 24;
const HEADINGS = {
  suspected: classes ? "Suspected label errors" : "Suspected bad targets",
  highest: "Highest scores",
  lowest: "Lowest scores",
};
const byValue = (column) => (a, b) => a.values[column] - b.values[column];
const SORTS = {
  score: (a, b) => byValue(SCORE)(b, a),
  "score-up": byValue(SCORE),
  quality: (a, b) => a.quality - b.quality,
  label: byValue(GIVEN),
  predicted: byValue(PREDICTED),
  index: (a, b) => a.index - b.index,
};
const form = byId("controls");
// The values of the form, by the name of the control.
let state = {};
// The page number of each section, from 0.
const pages = {};

function passes(row) {
  const words = [row.index, shown(row, GIVEN), shown(row, PREDICTED), row.unusual, row.text];
  const wanted = (name, value) => !state[name] || value === state[name];
  return (
    wanted("label", String(row.values[GIVEN])) &&
    wanted("predicted", String(row.values[PREDICTED])) &&
    wanted("decision", decisionOn(row) ?? "undecided") &&
    (!state.suspected || row.suspected) &&
    (!state.text || words.join(" ").toLowerCase().includes(state.text.toLowerCase()))
  );
}

// The examples of a section that match the filters, sorted.
function chosen(name) {
  const rows = data.sections[name].map((at) => data.rows[at]).filter(passes);
  const order = SORTS[state.sort];
  return order ? rows.sort((a, b) => order(a, b) || a.index - b.index) : rows;
}

function listing(name, rows) {
  const body = element("tbody", {}, ...rows.map((row) => example(name, row)));
  return element(
    "div",
    // Reachable by keyboard, because it may be wider than the window.
    { className: "scroll", tabIndex: 0, role: "region", ariaLabel: HEADINGS[name] },
    element("table", "examples", headings(), body),
  );
}

function count(name, found) {
  const held = data.sections[name].length;
  const total = data.totals[name].toLocaleString("en-US");
  if (!held) return "None.";
  const which = name === "suspected" ? "worst" : name;
  const all = held === data.totals[name] ? "all" : `the ${which} ${held} of`;
  const text = `${found < held ? `${found} that match, of ` : ""}${all} ${total}.`;
  return text[0].toUpperCase() + text.slice(1);
}

const lastPage = (rows) => Math.max(Math.ceil(rows.length / PAGE_SIZE) - 1, 0);

function section(name) {
  const rows = chosen(name), last = lastPage(rows);
  pages[name] = Math.min(pages[name], last);
  const first = pages[name] * PAGE_SIZE;
  const hint = name === "suspected" && last ? " The worst come first. Accept all above the row where the proposals stop being right." : "";
  const made = element(
    "section",
    { id: name },
    element("h2", {}, HEADINGS[name]),
    element("p", "note", count(name, rows.length) + hint),
  );
  if (rows.length) made.append(listing(name, rows.slice(first, first + PAGE_SIZE)));
  if (last) made.append(pager(name, last));
  return made;
}

function pager(name, last) {
  const go = (by, text) => {
    const disabled = pages[name] + by < 0 || pages[name] + by > last;
    return button({ disabled }, text, () => {
      turn(name, by);
      byId(name).scrollIntoView();
    });
  };
  const where = element("span", {}, `Page ${pages[name] + 1} of ${last + 1}`);
  return element("nav", "pager", go(-1, "\u2190 Previous"), where, go(1, "Next \u2192"));
}

// Returns whether the page exists.
function turn(name, by) {
  const wanted = pages[name] + by;
  if (wanted < 0 || wanted > lastPage(chosen(name))) return false;
  pages[name] = wanted;
  draw();
  return true;
}

function draw() {
  byId("sections").replaceChildren(...Object.keys(HEADINGS).map(section));
  report();
}

// New filters start at the first page.
function drawFirst() {
  for (const name of Object.keys(HEADINGS)) pages[name] = 0;
  draw();
}

// Shows the progress of the review.
function report() {
  const all = [...decisions.values()];
  const shares = Object.keys(LETTERS).map(
    (name) => `${all.filter((d) => d.decision === name).length} ${name}`,
  );
  const suspects = data.sections.suspected.map((at) => data.rows[at]);
  const done = suspects.filter(decisionOn).length;
  const bar = document.querySelector("#review progress");
  bar.max = Math.max(suspects.length, 1);
  bar.value = done;
  byId("progress").replaceChildren(
    `${done} of ${suspects.length}`,
    element("span", "more-words", " suspects"),
    done && done === suspects.length ? " decided: export them" : " decided",
    element("span", "more-words", `. In total: ${shares.join(", ")}.`),
  );
  byId("kept").textContent = isStored
    ? "Decisions are stored in this browser until you export them."
    : "This browser stores nothing for local files, so your decisions are in the address of this page.";
  byId("export").disabled = !decisions.size;
  byId("undo").disabled = !undoable.length;
}

function show() {
  state = Object.fromEntries(new FormData(form));
  drawFirst();
}

function filter() {
  show();
  remember();
}

// The address holds the filters, so that a link shows the same view.
function remember() {
  const used = Object.entries(state).filter(([, value]) => value !== "");
  if (!isStored && decisions.size) used.push(["decided", written()]);
  history.replaceState(null, "", `#${new URLSearchParams(used)}`);
}

function recall() {
  const wanted = new URLSearchParams(location.hash.slice(1));
  for (const input of form.querySelectorAll("input, select")) {
    const value = wanted.get(input.name) || "";
    if (input.type === "checkbox") input.checked = value !== "";
    else input.value = value;
    // The address may contain anything.
    if (input.selectedIndex < 0) input.value = "";
  }
  return wanted.get("decided");
}

const address = recall();
stored((store) => read(store.getItem(STORE)));
if (!isStored) read(address);
show();
form.addEventListener("submit", (event) => event.preventDefault());
form.addEventListener("input", filter);
byId("clear").addEventListener("click", () => {
  form.reset();
  filter();
});
byId("export").addEventListener("click", download);
byId("undo").addEventListener("click", takeBack);
document.addEventListener("keydown", onKey);
window.addEventListener("hashchange", () => {
  const decided = recall();
  if (!isStored && decided) read(decided);
  show();
  if (!isStored) remember();
  form.scrollIntoView();
});
// Another window may show the same page.
window.addEventListener("storage", (event) => {
  if (event.key !== STORE) return;
  read(event.newValue);
  draw();
});
