"""Reviews on the page: marking, undoing, filtering, exporting."""

import csv
import io
import re

import numpy as np
import pytest

import keras_likelihood as kl
from keras_likelihood.auditing.page import write_audit
from keras_likelihood.auditing.report import AuditReport
from keras_likelihood.pages.examples import show_inputs
from tests.audit.chromium import acted, on_a_phone
from tests.audit.test_audit_page import NASTY, N, embedded, images, report_of

pytestmark = pytest.mark.one_backend

NAMES = ['=HYPERLINK("http:x")', "+dog;=1+1", "<b>bird</b>"]
SUSPECTS = report_of().suspects()
GIVEN = report_of().label_issues["given_label"]


def page_of(folder, x, names=NAMES, task="classification", top=40):
    path = folder / "audit.html"
    shown = show_inputs(x, None)
    write_audit(report_of(task, names), shown, path, top, "Title")
    return path


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    return page_of(tmp_path_factory.mktemp("review"), images())


STATE = """
const store = () => localStorage.getItem(
  Object.keys(localStorage).find((k) => k.startsWith("keras-likelihood")));
const now = () => document.querySelector("[aria-current]")?.dataset.key;
const progress = () => document.getElementById("progress").textContent;
"""


def test_keys_decide_and_undo(page, tmp_path):
    steps = """
    press("w"); told.push(now(), store());
    press("r"); press("w"); press("u"); press("2");
    told.push(now(), store(), progress());
    press("z"); press("z"); press("z"); told.push(now(), store());
    press("k"); press("c"); press("k"); told.push(now(), store());
    press("l"); told.push(document.activeElement.className, store());
    press("r"); told.push(store());
    press("Enter"); press("j"); told.push(now());
    press("7"); press("x"); told.push(now(), store());
    """
    a, b, c, d, e = (int(i) for i in SUSPECTS[:5])
    proposal = (GIVEN[b] + 1) % 3
    last = f"{d}w2" if GIVEN[d] != 2 else f"{d}r"
    marked = f"{a}r_{b}w{proposal}_{c}u_{last}"
    first = f"{a}w{(GIVEN[a] + 1) % 3}"
    assert acted(page, tmp_path, STATE + steps) == [
        *(f"suspected {a}", None),
        *(f"suspected {e}", marked, progress(4, marked)),
        *(f"suspected {b}", f"{a}r"),
        *(f"suspected {a}", ""),
        *("correction", first),
        first,  # Letters typed into the list of labels make no decision.
        f"suspected {b}",
        *(f"suspected {b}", first),
    ]


def progress(done, marked):
    told = ", ".join(
        f"{len(re.findall(rf'[0-9]{name[0]}', marked))} {name}"
        for name in ("right", "wrong", "unsure")
    )
    return f"{done} of 18 suspects decided. In total: {told}."


def test_clicks_filter_and_export(page, tmp_path):
    """The exported file is safe in a spreadsheet, and `apply` reads it."""
    steps = """
    const row = (at) => all("#suspected tbody tr")[at];
    const mark = (at, name) => row(at).querySelector(`.judge .${name}`).click();
    mark(0, "wrong"); mark(1, "right"); mark(2, "unsure"); mark(3, "wrong");
    const list = row(3).querySelector(".correction");
    told.push([...list.options].map((o) => o.textContent));
    list.value = ""; list.dispatchEvent(new Event("change"));
    mark(4, "right"); mark(4, "right");
    told.push(row(0).querySelector(".wrong").getAttribute("aria-pressed"));
    const field = document.getElementById("controls").elements.decision;
    const shown = [...field.options].map((o) => {
      field.value = o.value;
      field.dispatchEvent(new Event("input", { bubbles: true }));
      return all("#suspected tbody tr").length;
    });
    told.push(shown, location.hash);
    document.getElementById("controls").querySelector("button").click();
    const Real = Blob;
    let text;
    window.Blob = function (parts) { text = parts[0]; return new Real(parts); };
    HTMLAnchorElement.prototype.click = function () {
      told.push(this.download, this.protocol, text);
    };
    document.getElementById("export").click();
    """
    found = acted(page, tmp_path, steps)
    options, pressed, shown, address, name, protocol, text = found
    given = GIVEN[SUSPECTS[3]]
    others = [n for i, n in enumerate(NAMES) if i != given]
    assert options == ["remove it", *others]
    assert pressed == "true"
    # All, undecided, wrong, right, unsure.
    assert shown == [18, 14, 2, 1, 1]
    assert address == "#decision=unsure"
    assert (name, protocol) == ("decisions.csv", "blob:")
    for cell in (c for line in csv.reader(io.StringIO(text)) for c in line):
        assert not re.match(r"[=+\-@\t\r]", cell)
        assert ";" not in cell
    path = tmp_path / name
    path.write_bytes(text.encode())
    y, keep = kl.auditing.apply(GIVEN, path)
    expected = GIVEN.copy()
    expected[SUSPECTS[0]] = (GIVEN[SUSPECTS[0]] + 1) % 3
    np.testing.assert_array_equal(y, expected)
    np.testing.assert_array_equal(np.flatnonzero(~keep), [SUSPECTS[3]])


def test_decisions_outlive_the_page(page, tmp_path):
    """Decisions survive a reload, and those on other data are ignored."""
    steps = """
    if (!localStorage.getItem("again")) {
      localStorage.setItem("again", "1");
      localStorage.setItem("keras-likelihood-audit-other", "1r_2r");
      press("j"); press("r");
      later = true;
      location.reload();
    } else {
      told.push(progress(), all('#suspected [aria-pressed="true"]').length);
      localStorage.setItem(
        Object.keys(localStorage).find((k) => !k.endsWith("other") &&
          k.startsWith("keras")), "0r_x_5q_-1w_3w9_4r1_6w1__7u");
      const reload = new StorageEvent("storage", {
        key: Object.keys(localStorage).find((k) => !k.endsWith("other") &&
          k.startsWith("keras")), newValue: "0r_x_5q_-1w_3w9_4r1_6w1__7u"});
      window.dispatchEvent(reload);
      told.push(progress());
    }
    """
    kept, pressed, read = acted(page, tmp_path, STATE + steps)
    assert kept.endswith("In total: 1 right, 0 wrong, 0 unsure.")
    assert pressed == 1
    assert read.endswith("In total: 1 right, 1 wrong, 1 unsure.")


def test_the_address_holds_what_storage_refuses(page, tmp_path):
    refused = """
    Object.defineProperty(window, "localStorage", { get() {
      throw new DOMException("refused", "SecurityError");
    } });
    """
    steps = """
    told.push(progress(), document.getElementById("kept").textContent);
    press("j"); press("u"); told.push(location.hash);
    window.addEventListener("hashchange", () => {
      told.push(location.hash, progress()); finish();
    });
    later = true;
    location.hash = "#label=1";
    """
    first, last = SUSPECTS[0], SUSPECTS[-1]
    before, note, address, filtered, after = acted(
        *(page, tmp_path, STATE + steps),
        before=refused,
        fragment=f"#decided={last}r_999999999w<b>",
    )
    assert before.startswith("1 of 18") and "1 right, 0 wrong" in before
    assert "in the address" in note
    assert address == f"#decided={last}r_{first}u"
    assert filtered == f"#label=1&decided={last}r_{first}u"
    assert after.startswith("2 of 18")


def test_an_example_enlarges_and_counts_filter(page, tmp_path):
    steps = """
    click("#suspected img");
    const large = document.querySelector("dialog");
    const image = large.querySelector("img");
    told.push(large.open, image.getBoundingClientRect().width);
    told.push(large.querySelectorAll("dt").length);
    press("w"); told.push(large.querySelector("h2").textContent);
    large.addEventListener("close", () => {
      told.push(large.open, store(), now());
      const cell = document.querySelector(".heat a");
      window.addEventListener("hashchange", () => {
        told.push(Number(cell.textContent));
        told.push(all("#suspected tbody tr").length);
        finish();
      });
      cell.click();
    });
    later = true;
    press("e");
    """
    a, b = SUSPECTS[:2]
    found = acted(page, tmp_path, STATE + steps)
    is_open, width, facts, heading, still_open, store, now, *counts = found
    assert is_open and not still_open
    assert now == f"suspected {b}"
    assert width >= 200
    assert facts == len(embedded(page)["columns"])
    assert heading == f"Example {b}"
    assert store == f"{a}w{(GIVEN[a] + 1) % 3}"
    assert counts == [6, 6]


def texts():
    return np.array([f"{NASTY[0]} {i} " + "long text " * 60 for i in range(N)])


def table():
    x = np.random.default_rng(1).normal(size=(N, 8))
    x[:, 7] = 4.5
    x[::3, 1] = np.nan
    x[::10, 2] = 60
    return x


LAYOUT = """
const rows = inner.querySelectorAll("#suspected tbody tr");
const cells = [...rows[0].children];
const { scrollWidth, clientWidth } = inner.documentElement;
told.push(scrollWidth <= clientWidth);
told.push(cells.map((c) => c.dataset.name));
told.push(cells.every((c) => {
  const box = c.getBoundingClientRect();
  return box.width > 0 && box.height > 0 && box.left >= 0 && box.right <= 390;
}));
told.push(cells.map((c) => frame.contentWindow
  .getComputedStyle(c, "::before").content));
told.push(rows[0].textContent);
"""


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "task, x, last",
    [
        ("classification", images(), ["p(given)", "quality"]),
        ("classification", texts(), ["p(given)", "quality", "text"]),
        ("regression", table(), ["p(given)", "quality", "features"]),
    ],
    ids=["images", "text", "table"],
)
def test_a_phone_shows_every_column(tmp_path, task, x, last):
    path = page_of(tmp_path, x, NASTY, task)
    found = on_a_phone(path, tmp_path, LAYOUT)
    fits, names, inside, before, text = found
    assert fits and inside
    first = ["given", "predicted", "learned temperature"]
    if task == "regression":
        first[:2] = ["target", "prediction"]
    expected = ["index", *first, *last, "decision"]
    assert names == ["example"] * (x.ndim == 4) + expected
    assert before[names.index("p(given)")] == '"p(given)"'
    if "text" in last:
        assert NASTY[0] in text
    if "features" in last:
        assert "x1: " in text and "and 2 more" in text


def large_report(n):
    rng = np.random.default_rng(0)
    given, suspected = rng.integers(0, 1000, n), rng.random(n) < 0.1
    return AuditReport(
        task="classification",
        scores=rng.gamma(2.0, size=n),
        score_name="learned temperature",
        score_meaning="A sentence.",
        label_issues={
            "is_label_issue": suspected,
            "label_quality": rng.uniform(size=n),
            "given_label": given,
            "predicted_label": rng.integers(0, 1000, n),
        },
        nll=rng.uniform(size=n),
        label_names=[f"class {i}" for i in range(1000)],
    )


@pytest.mark.few(0)
def test_the_page_of_a_million_is_small(tmp_path):
    """Images of noise are the hardest to compress."""
    n = 1_000_000
    report = large_report(n)
    noise = np.random.default_rng(0).integers(0, 256, (1, 96, 96, 3))
    shown = show_inputs(
        np.broadcast_to(noise.astype("uint8"), (n, 96, 96, 3)), None
    )
    path = tmp_path / "audit.html"
    write_audit(report, shown, path, 100, "Many")
    assert 1e6 < path.stat().st_size < 3e7
    assert "Of 1000 classes, the 20 with the most suspected labels" in (
        path.read_text(encoding="utf-8")
    )
    long = np.broadcast_to(np.array(["word " * 10_000]), (n,))
    write_audit(report, show_inputs(long, None), path, 100, "Many")
    assert path.stat().st_size < 3e7


def test_the_heat_map_counts_every_suspect(tmp_path):
    text = page_of(tmp_path, images(), NASTY).read_text(encoding="utf-8")
    drawn = text.split('class="scroll heat')[1].split("</table>")[0]
    counts = [int(c) for c in re.findall(r">([\d,]+)</a>", drawn)]
    assert sum(counts) == len(SUSPECTS)
    assert "<img" not in drawn and "<script" not in drawn
    assert "heat-6" in drawn and "heat-7" not in drawn


def test_names_that_no_encoding_knows_do_not_stop_the_page(tmp_path):
    path = page_of(tmp_path, images(), ["a\udcff", "b", "c"])
    assert embedded(path)["labels"][0].startswith("a")


def test_all_above_a_line_are_accepted_and_taken_back(page, tmp_path):
    """Existing decisions do not change, and one undo reverts all new ones."""
    steps = """
    press("r"); press("j"); press("r");
    for (let at = 0; at < 3; at++) press("j");
    told.push(now());
    press("a"); told.push(store(), progress());
    press("z"); told.push(store());
    document.querySelector("[aria-current] .above").click();
    told.push(progress());
    """
    found = acted(page, tmp_path, STATE + steps)
    row, accepted, done, back, again = found
    at = SUSPECTS.tolist().index(int(row.split()[1]))
    decided = back.removesuffix("r")
    expected = [
        f"{i}w{(GIVEN[i] + 1) % 3}"
        for i in SUSPECTS[: at + 1]
        if str(i) != decided
    ]
    assert accepted.split("_") == [back, *expected]
    assert done.startswith(f"{at + 1} of 18 suspects decided")
    assert again.startswith(f"{at + 1} of 18")


def many_suspects(folder):
    """A page with more suspects than one list can show."""
    report = large_report(1500)
    report.label_names = ["cat", "dog"]
    issues = report.label_issues
    issues["given_label"] = np.arange(1500) % 2
    issues["predicted_label"] = 1 - issues["given_label"]
    path = folder / "many.html"
    x = np.random.default_rng(0).normal(size=(1500, 3))
    write_audit(report, show_inputs(x), path, 10, "Many")
    return path, report


def test_every_suspect_is_reached_page_by_page(tmp_path):
    path, report = many_suspects(tmp_path)
    steps = """
    const seen = () => all("#suspected tbody tr").map((row) => row.dataset.key);
    const turn = () => all("#suspected .pager button").at(-1);
    told.push(...seen());
    while (!turn().disabled) { turn().click(); told.push(...seen()); }
    """
    found = acted(path, tmp_path, STATE + steps)
    assert len(report.suspects()) > 100
    assert found == [f"suspected {i}" for i in report.suspects()]
    # A link of the summary shows all of its examples, and keys go on to the
    # next page.
    pair = report.label_issues["given_label"] == 0
    count = int((pair & report.label_issues["is_label_issue"]).sum())
    steps = """
    window.addEventListener("hashchange", () => {
      told.push(document.querySelector("#suspected .note").textContent);
      told.push(all("#suspected tbody tr").length);
      for (let at = 0; at < 25; at++) press("j");
      told.push(document.querySelector("#suspected .pager span").textContent);
      press("a"); told.push(progress());
      finish();
    });
    later = true;
    all(".pairs a").find((a) => a.textContent.startsWith("cat")).click();
    """
    words, rows, where, done = acted(path, tmp_path, STATE + steps)
    assert words.startswith(f"{count} that match") and rows == 24
    assert where.startswith("Page 2 of")
    assert done.startswith("25 of ")
