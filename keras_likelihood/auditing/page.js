"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const classes = data.task === "classification";
  const GIVEN = 0, PREDICTED = 1, SCORE = 2;
  const JUDGED = classes ? PREDICTED : GIVEN;
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
  const NOTHING = { label: "", predicted: "", text: "", suspected: "", sort: "" };
  let state = { ...NOTHING };
  const expanded = new Set();

  // Text enters the page through `textContent` alone, never as markup.
  function element(tag, className, ...children) {
    const made = document.createElement(tag);
    if (className) made.className = className;
    for (const child of children) {
      made.append(child instanceof Node ? child : String(child));
    }
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

  function searched(row) {
    const words = [row.index, shown(row, GIVEN), shown(row, PREDICTED)];
    return [...words, row.unusual || ""].join(" ").toLowerCase();
  }

  function passes(row) {
    return (
      (state.label === "" || String(row.values[GIVEN]) === state.label) &&
      (state.predicted === "" ||
        String(row.values[PREDICTED]) === state.predicted) &&
      (state.suspected === "" || row.suspected) &&
      (state.text === "" || searched(row).includes(state.text.toLowerCase()))
    );
  }

  function picture(row) {
    const image = document.createElement("img");
    image.src = row.image;
    image.alt = `example ${row.index}`;
    return image;
  }

  function card(row) {
    const names = [GIVEN, PREDICTED].map((at) =>
      element("span", at === JUDGED ? "judged" : "", shown(row, at)),
    );
    return element(
      "li",
      row.suspected ? "suspected" : "",
      picture(row),
      element("p", "", names[0], " \u2192 ", names[1]),
      element(
        "p",
        "",
        element("span", "", `#${row.index}`),
        element("span", "", shown(row, SCORE)),
      ),
    );
  }

  function heading(text, className) {
    const cell = element("th", className, text);
    cell.scope = "col";
    return cell;
  }

  function headings() {
    const names = data.columns.map((c) =>
      heading(c.name, c.kind === "label" ? "" : "number"),
    );
    if (data.rows.some((row) => row.image)) names.unshift(heading("example", ""));
    names.splice(names.length - data.columns.length, 0, heading("index", "number"));
    if (data.features.length) names.push(heading("most unusual", ""));
    for (const { name } of data.features) names.push(heading(name, "number"));
    return element("thead", "", element("tr", "", ...names));
  }

  function width(text) {
    return text.length > 24 ? "long" : "";
  }

  function line(row) {
    const cells = data.columns.map((column, at) => {
      const text = shown(row, at);
      const kind = column.kind === "label" ? width(text) : "number";
      return element("td", at === JUDGED ? `${kind} judged` : kind, text);
    });
    cells.unshift(element("td", "number", row.index));
    if (row.image) cells.unshift(element("td", "", picture(row)));
    if (data.features.length) {
      const text = row.unusual || "";
      cells.push(element("td", width(text), text));
    }
    (row.features || []).forEach((value, at) => {
      const css = row.marked.includes(at) ? "number marked" : "number";
      cells.push(element("td", css, format(value, data.features[at].digits)));
    });
    return element("tr", row.suspected ? "suspected" : "", ...cells);
  }

  function isContactSheet(name) {
    return name !== "suspected" && data.rows.every((row) => row.image);
  }

  function listing(name, rows) {
    if (isContactSheet(name)) return element("ul", "cards", ...rows.map(card));
    const body = element("tbody", "", ...rows.map(line));
    const table = element("table", "", headings(), body);
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
      const more = element("button", "more", `Show all ${rows.length}`);
      more.type = "button";
      more.addEventListener("click", () => {
        expanded.add(name);
        draw();
      });
      made.append(more);
    }
    return made;
  }

  function draw() {
    const names = Object.keys(HEADINGS);
    document.getElementById("sections").replaceChildren(...names.map(section));
  }

  function select(name, caption, options) {
    const made = element("select", "");
    for (const [value, text] of options) {
      const option = element("option", "", text);
      option.value = value;
      made.append(option);
    }
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
    const text = element("input", "");
    text.type = "search";
    text.placeholder = classes ? "index or label" : "index or feature";
    form.append(control("text", "Text", text));
    const sorts = Object.entries(SORTS).map(([key, [name]]) => [key, name]);
    form.append(select("sort", "Sort by", sorts));
    const box = element("input", "");
    box.type = "checkbox";
    form.append(control("suspected", "Suspected only", box));
    const reset = element("button", "", "Reset");
    reset.type = "button";
    reset.addEventListener("click", () => {
      state = { ...NOTHING };
      remember();
      show();
    });
    form.append(reset);
  }

  // The address holds the filters, so that a link shows what its sender saw.
  function remember() {
    const used = Object.entries(state).filter(([, value]) => value !== "");
    history.replaceState(null, "", `#${new URLSearchParams(used)}`);
  }

  function recall() {
    const wanted = new URLSearchParams(location.hash.slice(1));
    for (const name of Object.keys(NOTHING)) state[name] = wanted.get(name) || "";
    if (!Object.hasOwn(SORTS, state.sort)) state.sort = "";
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
  recall();
  show();
  window.addEventListener("hashchange", () => {
    recall();
    show();
    document.getElementById("controls").scrollIntoView();
  });
})();
