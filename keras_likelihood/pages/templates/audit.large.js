// One example alone: its picture, text and all its features.
const large = element("dialog", "large");
large.setAttribute("aria-label", "One example");
document.body.append(large);
let updateLarge = () => {};
let enlarged = null;

function facts(row) {
  const list = element("dl", "");
  const add = (name, text, className) =>
    list.append(
      element("div", className, element("dt", "", name), element("dd", "", text)),
    );
  data.columns.forEach((column, at) =>
    add(column.name, shown(row, at), at === JUDGED && row.suspected ? "judged" : ""),
  );
  (row.features || []).forEach((_, at) =>
    add(
      data.features[at].name,
      feature(row, at),
      row.marked.includes(at) ? "marked" : "",
    ),
  );
  return list;
}

function enlarge(row) {
  const { group, update } = judge(row);
  const parts = row.image ? [image(row)] : [];
  const told = element("div", "told");
  if (row.text) told.append(element("div", "words", row.text));
  told.append(facts(row));
  const close = button("", "Close", () => large.close());
  const back = button("", "\u2190 Previous", () => step(-1));
  const next = button("", "Next \u2192", () => step(1));
  large.replaceChildren(
    element("h2", "", `Example ${row.index}`),
    element("div", "shown", ...parts, told),
    element("div", "actions", group, element("div", "", back, next, close)),
  );
  updateLarge = update;
  enlarged = cursor;
  update();
  if (!large.open) large.showModal();
  // Keys decide here too, whichever button was pressed last.
  large.focus();
}

large.tabIndex = -1;
large.addEventListener("close", () => {
  updateLarge = () => {};
  // The browser itself goes back to where the person opened it.
  const now = examples().find((node) => node.dataset.key === enlarged);
  if (now) point(now, true);
});
