const SIGNS = { right: "\u2713", wrong: "\u2717", unsure: "?" };

function image(row) {
  const made = element("img", "");
  // Few pixels are clearer as squares, photographs are not.
  made.addEventListener("load", () =>
    made.classList.toggle("tiny", made.naturalWidth <= 48),
  );
  made.src = row.image;
  made.alt = `example ${row.index}`;
  return made;
}

function picture(row) {
  const opener = button("picture", image(row), () => enlarge(row));
  opener.setAttribute("aria-label", `Enlarge example ${row.index}`);
  return opener;
}

function option(value, text) {
  const made = element("option", "", text);
  made.value = value;
  return made;
}

// Where the person names what a wrong label should have been.
function correction(row) {
  const input = element(classes ? "select" : "input", "correction");
  if (classes) {
    input.append(option("", "leave it out"));
    data.labels.forEach((name, at) => {
      if (at !== row.values[GIVEN]) input.append(option(String(at), name));
    });
  } else {
    input.type = "number";
    input.step = "any";
    input.placeholder = "leave it out";
  }
  input.setAttribute("aria-label", `Better label of example ${row.index}`);
  input.addEventListener("change", () => {
    const label = input.value === "" ? null : Number(input.value);
    change(row.index, "wrong", label);
  });
  return input;
}

// Three buttons, and a field once the label is wrong; returned with the
// function that shows the decision as it now is.
function judge(row) {
  const group = element("div", "judge");
  group.setAttribute("role", "group");
  group.setAttribute("aria-label", `Decision on example ${row.index}`);
  const buttons = Object.keys(SIGNS).map((name) => {
    const word = element("span", "word", name);
    const made = button(name, SIGNS[name], () => choose(row, name));
    made.append(" ", word);
    made.title = `${name} (${LETTERS[name].toUpperCase()})`;
    made.setAttribute("aria-label", `${name}, example ${row.index}`);
    return made;
  });
  const above = button("above", "\u2191 Accept all above this line", () => acceptAbove(row));
  above.title = "this example and all undecided ones before it are wrong (A)";
  group.append(element("div", "", ...buttons), above);
  let input = null;
  const update = () => {
    const found = decisions.get(row.index);
    buttons.forEach((made) => {
      const pressed = made.classList.contains(found?.decision);
      made.setAttribute("aria-pressed", String(pressed));
    });
    const wrong = found?.decision === "wrong" && (classes || data.one_target);
    if (wrong && !input) {
      input = correction(row);
      group.append(input);
    }
    if (!input) return;
    input.hidden = !wrong;
    if (wrong) input.value = found.label ?? "";
  };
  return { group, update };
}

const has = (name) => data.rows.some((row) => row[name]);

function headings() {
  const columns = [["index", "number"]];
  for (const { name, kind } of data.columns) columns.push([name, kind]);
  if (has("image")) columns.unshift(["example", ""]);
  if (has("text")) columns.push(["text", ""]);
  if (data.features.length) columns.push(["features", ""]);
  columns.push(["decision", "decision"]);
  const cells = columns.map(([name, kind]) => element("th", kind, name));
  for (const cell of cells) cell.scope = "col";
  return element("thead", "", element("tr", "", ...cells));
}

// On a narrow screen a cell stands below its column's name.
function cell(name, className, content) {
  const made = element("td", className, content);
  made.dataset.name = name;
  return made;
}

const width = (text) => (text.length > 24 ? "long" : "");

// The first few as `name: value`, and the most unusual if it is another.
function features(row) {
  const first = data.features.slice(0, data.shown_features);
  const parts = first.map(({ name }, at) => {
    const css = row.marked.includes(at) ? "marked" : "";
    return element("span", css, element("i", "", `${name}: `), feature(row, at));
  });
  if (row.unusual && !row.marked.some((at) => at < first.length)) {
    parts.unshift(element("span", "marked", row.unusual));
  }
  const others = data.features.length - first.length;
  if (others > 0) {
    parts.push(button("fold", `and ${others} more`, () => enlarge(row)));
  }
  return element("div", "", ...parts);
}

function line(row) {
  const cells = data.columns.map((column, at) => {
    const text = shown(row, at);
    const kind = column.kind === "label" ? width(text) : "number";
    return cell(column.name, at === JUDGED ? `${kind} judged` : kind, text);
  });
  const opener = button("index", row.index, () => enlarge(row));
  opener.title = "Enlarge (E)";
  cells.unshift(cell("index", "number", opener));
  if (row.image) cells.unshift(cell("example", "image", picture(row)));
  if (has("text")) cells.push(cell("text", "text", element("div", "words", row.text)));
  if (row.features) cells.push(cell("features", "features", features(row)));
  const { group, update } = judge(row);
  cells.push(cell("decision", "decision", group));
  return { node: element("tr", "", ...cells), update };
}

// Examples are made once and shown again, so that pictures do not flicker.
const made = new Map();

function example(name, row) {
  const key = `${name} ${row.index}`;
  if (!made.has(key)) {
    const { node, update } = line(row);
    node.classList.toggle("suspected", row.suspected);
    node.tabIndex = -1;
    node.dataset.key = key;
    // Before what the click itself does, which may go to another example.
    node.addEventListener("click", () => point(node, false), true);
    node.addEventListener("focusin", () => point(node, false));
    made.set(key, { node, row, update });
  }
  const found = made.get(key);
  found.update();
  return found.node;
}
