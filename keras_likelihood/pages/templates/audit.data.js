const data = JSON.parse(document.getElementById("data").textContent);
const classes = data.task === "classification";
const GIVEN = 0, PREDICTED = 1, SCORE = 2;
const JUDGED = classes ? PREDICTED : GIVEN;
const rowOf = new Map(data.rows.map((row) => [row.index, row]));
const byId = (name) => document.getElementById(name);

// Text enters the page only through `append`, never as markup. `properties` is
// an object or the name of a CSS class.
function element(tag, properties, ...children) {
  const made = document.createElement(tag);
  if (typeof properties === "string") made.className = properties;
  else Object.assign(made, properties);
  made.append(...children);
  return made;
}

function button(properties, content, onclick) {
  const made = element("button", properties, content);
  return Object.assign(made, { type: "button", onclick });
}

function format(value, digits) {
  if (typeof value !== "number") return "";
  const least = 10 ** -digits;
  if (value > 0 && value < least / 2) return "<" + least.toFixed(digits);
  const text = value.toFixed(digits);
  return text.replace("-", Number(text) === 0 ? "" : "\u2212");
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
