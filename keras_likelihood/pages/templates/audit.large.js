// A single example: its image, text and all its features.
const large = element("dialog", {
  className: "large", ariaLabel: "One example", tabIndex: -1,
});
document.body.append(large);
let updateLarge = () => {};
let enlarged = null;

function facts(row) {
  const list = element("dl", {});
  const add = (name, text, className) => {
    const fact = [element("dt", {}, name), element("dd", {}, text)];
    list.append(element("div", className, ...fact));
  };
  data.columns.forEach(({ name }, at) =>
    add(name, shown(row, at), at === JUDGED && row.suspected ? "judged" : ""),
  );
  (row.features || []).forEach((_, at) => {
    const css = row.marked.includes(at) ? "marked" : "";
    add(data.features[at].name, feature(row, at), css);
  });
  return list;
}

function enlarge(row) {
  const group = judge(row);
  const told = element("div", "told", facts(row));
  if (row.text) told.prepend(element("div", "words", row.text));
  const buttons = [
    button({}, "\u2190 Previous", () => step(-1)),
    button({}, "Next \u2192", () => step(1)),
    button({}, "Close", () => large.close()),
  ];
  large.replaceChildren(
    element("h2", {}, `Example ${row.index}`),
    element("div", "shown", ...(row.image ? [image(row)] : []), told),
    element("div", "actions", group, element("div", {}, ...buttons)),
  );
  updateLarge = group.update;
  enlarged = cursor;
  updateLarge();
  if (!large.open) large.showModal();
  // Keys work here too, whichever button was pressed last.
  large.focus();
}

large.addEventListener("close", () => {
  updateLarge = () => {};
  // The browser returns to the place where the dialog was opened.
  const now = examples().find((node) => node.dataset.key === enlarged);
  if (now) point(now, true);
});
