// More are shown for a single example.
const SHOWN_FEATURES = 6;
const SIGNS = { right: "\u2713", wrong: "\u2717", unsure: "?" };

function image(row) {
  return element("img", {
    // Small images are clearer as squares, photographs are not.
    onload: (event) =>
      event.target.classList.toggle("tiny", event.target.naturalWidth <= 48),
    src: row.image,
    alt: `example ${row.index}`,
  });
}

const option = (value, text) => element("option", { value }, text);

// The field for the right label of an example.
function correction(row) {
  const input = element(classes ? "select" : "input", {
    className: "correction",
    ariaLabel: `Right label of example ${row.index}`,
    onchange: () =>
      change(row, "wrong", input.value === "" ? null : Number(input.value)),
  });
  if (classes) {
    const options = data.labels.map((name, at) => option(at, name));
    input.append(option("", "remove it"), ...options);
    input.options[row.values[GIVEN] + 1].remove();
  } else {
    Object.assign(input, { type: "number", step: "any", placeholder: "remove it" });
  }
  return input;
}

// Three buttons, and a field if the label is wrong. `update` shows the current
// decision.
function judge(row) {
  const group = element("div", {
    className: "judge", role: "group", ariaLabel: `Decision on example ${row.index}`,
  });
  const buttons = Object.keys(SIGNS).map((name) => {
    const title = `${name} (${LETTERS[name].toUpperCase()})`;
    const look = { className: name, title, ariaLabel: `${name}, example ${row.index}` };
    return button(look, `${SIGNS[name]} ${name}`, () => choose(row, name));
  });
  const title = "this example and all undecided ones before it are wrong (A)";
  const accept = "\u2191 Accept all above this line";
  const above = button({ className: "above", title }, accept, () => acceptAbove(row));
  group.append(element("div", {}, ...buttons), above);
  let input = null;
  group.update = () => {
    const found = decisions.get(row.index);
    for (const made of buttons) made.ariaPressed = made.className === found?.decision;
    const wrong = found?.decision === "wrong" && (classes || data.one_target);
    if (wrong && !input) group.append((input = correction(row)));
    if (input) input.hidden = !wrong;
    if (wrong) input.value = found.label ?? "";
  };
  return group;
}

// The first few features as `name: value`, and the most unusual one.
function features(row) {
  const first = data.features.slice(0, SHOWN_FEATURES);
  const parts = first.map(({ name }, at) => {
    const css = row.marked.includes(at) ? "marked" : "";
    return element("span", css, element("i", {}, `${name}: `), feature(row, at));
  });
  if (row.unusual && !row.marked.some((at) => at < first.length)) {
    parts.unshift(element("span", "marked", row.unusual));
  }
  const others = data.features.length - first.length;
  if (others) parts.push(button("fold", `and ${others} more`, () => enlarge(row)));
  return element("div", {}, ...parts);
}

const has = (name) => data.rows.some((row) => row[name]);

// Name and heading class of each column, and functions for the class and the
// content of a cell.
const COLUMNS = [
  ["index", "number", (row) => {
    const look = { className: "index", title: "Enlarge (E)" };
    return ["number", button(look, row.index, () => enlarge(row))];
  }],
  ...data.columns.map(({ name, kind }, at) => [name, kind, (row) => {
    const text = shown(row, at);
    const css = kind !== "label" ? "number" : text.length > 24 ? "long" : "";
    return [at === JUDGED ? `${css} judged` : css, text];
  }]),
];
if (has("image")) COLUMNS.unshift(["example", "", (row) => {
  const look = { className: "picture", ariaLabel: `Enlarge example ${row.index}` };
  return ["image", button(look, image(row), () => enlarge(row))];
}]);
if (has("text")) COLUMNS.push(["text", "", (row) => ["text", element("div", "words", row.text)]]);
if (has("features")) COLUMNS.push(["features", "", (row) => ["features", features(row)]]);
COLUMNS.push(["decision", "decision", (row) => ["decision", judge(row)]]);

function headings() {
  const cell = ([name, className]) => element("th", { className, scope: "col" }, name);
  return element("thead", {}, element("tr", {}, ...COLUMNS.map(cell)));
}

function line(row) {
  const cells = COLUMNS.map(([name, , content]) => {
    const made = element("td", ...content(row));
    // On a narrow screen the name of the column is above the cell.
    made.dataset.name = name;
    return made;
  });
  const { update } = cells.at(-1).firstChild;
  return element("tr", { row, update, tabIndex: -1 }, ...cells);
}

// Elements are created once and reused, so that images do not flicker.
const made = new Map();

function example(name, row) {
  const key = `${name} ${row.index}`;
  if (!made.has(key)) {
    const node = line(row);
    node.classList.toggle("suspected", row.suspected);
    node.dataset.key = key;
    // This runs before the click itself, which may go to another example.
    node.addEventListener("click", () => point(node, false), true);
    node.addEventListener("focusin", () => point(node, false));
    made.set(key, node);
  }
  made.get(key).update();
  return made.get(key);
}
