const data = JSON.parse(document.getElementById("data").textContent);
const classes = data.task === "classification";
const GIVEN = 0, PREDICTED = 1, SCORE = 2;
const JUDGED = classes ? PREDICTED : GIVEN;
const rowOf = new Map(data.rows.map((row) => [row.index, row]));

// Text enters the page through `textContent` alone, never as markup.
function element(tag, className, ...children) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  for (const child of children) {
    made.append(child instanceof Node ? child : String(child));
  }
  return made;
}

function button(className, content, action) {
  const made = element("button", className, content);
  made.type = "button";
  made.addEventListener("click", action);
  return made;
}

function format(value, digits) {
  if (typeof value !== "number") return "";
  const least = 10 ** -digits;
  if (value > 0 && value < least / 2) return "<" + least.toFixed(digits);
  const text = value.toFixed(digits);
  return Number(text) === 0 ? text.replace("-", "") : text.replace("-", "\u2212");
}

function shown(row, column) {
  const { kind, digits } = data.columns[column];
  const value = row.values[column];
  return kind === "label" ? data.labels[value] : format(value, digits);
}

function feature(row, at) {
  const value = row.features[at] ?? "missing";
  return typeof value === "string" ? value : format(value, data.features[at].digits);
}
