"""The audit page: its content, and how a real browser shows it."""

import base64
import io
import json
import re

import numpy as np
import PIL.Image
import pytest

from keras_likelihood.auditing.page import write_audit
from keras_likelihood.auditing.report import AuditReport
from keras_likelihood.pages.charts import histogram
from keras_likelihood.pages.examples import show_inputs
from tests.audit.chromium import rendered

pytestmark = pytest.mark.one_backend

NASTY = [
    "</script><script>document.title='owned'</script>",
    "<img src=x onerror=\"document.title='owned'\">",
    "a\u2028b\u2029&amp;{{data}}<!--",
]
N = 90


def report_of(task="classification", names=NASTY):
    """A report of 90 examples. Every fifth one is suspected."""
    random = np.random.default_rng(0)
    given = np.arange(N) % 3
    suspected = np.arange(N) % 5 == 0
    scores = random.gamma(2.0, size=N) + 3 * suspected
    predicted = np.where(suspected, (given + 1) % 3, given)
    if task == "regression":
        given, predicted = given / 7, predicted / 7
    quality = random.uniform(size=N)
    return AuditReport(
        task=task,
        scores=scores,
        score_name="learned temperature",
        score_meaning="A sentence <b>about</b> it.",
        label_issues={
            "is_label_issue": suspected,
            "label_quality": quality,
            "given_label": given,
            "predicted_label": predicted,
        },
        nll=random.uniform(size=N),
        columns={"p(given)": random.uniform(size=N)},
        rule="A rule.",
        label_names=names if task == "classification" else None,
    )


def tabular():
    x = np.random.default_rng(1).normal(size=(N, 8))
    x[:, 7] = 0
    x[4, 7] = 50
    return x


def images():
    return np.random.default_rng(1).uniform(size=(N, 5, 6, 1))


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """A page on which every name is an injection attack."""
    path = tmp_path_factory.mktemp("page") / "audit.html"
    shown = show_inputs(tabular(), [NASTY[0], NASTY[1]] + NASTY * 2)
    write_audit(report_of(), shown, path, 40, NASTY[0])
    return path


def embedded(path):
    text = path.read_text(encoding="utf-8")
    block = re.search(
        r'<script id="data" type="application/json">(.*?)</script>', text
    )
    return json.loads(block[1])


def test_json_survives_and_cannot_leave_its_block(page):
    text = page.read_text(encoding="utf-8")
    block = text.split('type="application/json">')[1].split("</script>")[0]
    assert not set(block) & set("<>&\u2028\u2029")
    assert json.loads(block)["labels"] == NASTY


def test_infinite_and_missing_values_do_not_break_the_page(tmp_path):
    x = tabular()
    x[0, 0], x[1, 0], x[:, 1] = np.inf, -np.inf, np.nan
    x[:, 2] = np.inf
    path = tmp_path / "audit.html"
    write_audit(report_of(), show_inputs(x), path, 40, "Title")
    rows = {row["index"]: row for row in embedded(path)["rows"]}
    assert rows[0]["features"][:3] == ["inf", None, "inf"]
    assert 0 in rows[0]["marked"]
    assert "x0: inf" in rendered(path, tmp_path / "profile").text


def test_page_asks_for_nothing(page):
    text = page.read_text(encoding="utf-8")
    for word in ("http://", "https://", "@import", "url(", "fetch(", "//cdn"):
        assert word not in text
    policy = re.search(r'Security-Policy" content="([^"]*)"', text)[1]
    assert policy.startswith("default-src 'none'; img-src data:; ")
    assert "unsafe" not in policy
    assert not re.search(r"<(link|iframe|object|embed|base)\b", text)
    script = text.split('type="application/json">')[1]
    for word in ("innerHTML", "outerHTML", "insertAdjacent", "eval("):
        assert word not in script


def test_page_holds_the_extremes(page):
    data, report = embedded(page), report_of()
    found = {
        name: [data["rows"][at]["index"] for at in places]
        for name, places in data["sections"].items()
    }
    order = np.argsort(-report.scores)
    assert found["highest"] == order[:40].tolist()
    assert found["lowest"] == order[::-1][:40].tolist()
    suspected = np.arange(0, N, 5)
    quality = report.label_issues["label_quality"][suspected]
    assert found["suspected"] == suspected[np.argsort(quality)].tolist()
    assert data["totals"]["suspected"] == len(suspected)


def test_unusual_features_are_marked(tmp_path):
    names = [f"f{i}" for i in range(8)]
    shown = show_inputs(tabular(), names)
    assert [f["name"] for f in shown.features] == names
    assert shown.describe(4)["unusual"] == "f7 = 50"
    assert shown.describe(4)["marked"] == [7]
    x = tabular()
    x[2, 1] = 99
    described = show_inputs(x, None).describe(2)
    assert described["marked"] == [1]
    assert described["unusual"] == "x1 = 99"


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_thumbnails_are_images_of_their_pixels(channels):
    random = np.random.default_rng(0)
    pixels = random.integers(0, 256, (2, 7, 5, channels)).astype("uint8")
    pixels[1] = 255
    address = show_inputs(pixels).describe(0)["image"]
    kind, code = address.split(",")
    assert kind == "data:image/png;base64"
    read = np.asarray(PIL.Image.open(io.BytesIO(base64.b64decode(code))))
    np.testing.assert_array_equal(read.reshape(7, 5, channels), pixels[0])


@pytest.mark.parametrize(
    "low, high", [(0, 1), (-1, 1), (0, 255), (0, 16), (-3, 7)]
)
def test_thumbnails_span_black_to_white(low, high):
    x = np.linspace(low, high, 2 * 8 * 8).reshape(2, 8, 8)
    shown = show_inputs(x, None)
    small = np.asarray(shown.thumbnail(0))
    assert small.min() == 0
    assert np.asarray(shown.thumbnail(1)).max() == 255
    large = show_inputs(x.repeat(40, 1).repeat(40, 2), None)
    large = np.asarray(large.thumbnail(0))
    assert large.shape == (160, 160)
    np.testing.assert_allclose(large[::20, ::20], small, atol=1)


def test_histogram_counts_every_example():
    report = report_of()
    suspected = report.label_issues["is_label_issue"]
    drawn = histogram(report.scores, suspected, "<b>")
    bars = re.findall(r"<title>[^<]*: (\d+) examples</title>", drawn)
    assert sum(map(int, bars)) == N
    issues = re.findall(r", (\d+) suspected</title>", drawn)
    assert sum(map(int, issues)) == suspected.sum()
    assert "<b>" not in drawn
    assert 'role="img"' in drawn
    flat = histogram(np.ones(5), np.zeros(5, bool), "score")
    assert "5 examples" in flat


def test_few_suspected_examples_are_seen_beside_many_good_ones():
    scores = np.r_[np.zeros(1000), np.full(30, 9.0)]
    drawn = histogram(scores, scores > 0, "score")
    heights = re.findall(r'height="([\d.]+)"><title>', drawn)
    good, _, suspected = map(float, heights)
    assert suspected > 0.4 * good
    for mark in ("1", "10", "100", "1,000"):
        assert f">{mark}</text>" in drawn


def test_browser_runs_no_script_of_a_name(page, tmp_path):
    seen = rendered(page, tmp_path)
    assert seen.title == NASTY[0]
    images = [a for tag, a in seen.tags if tag == "img"]
    assert not [a for a in images if a["src"] == "x"]
    assert sum(tag == "script" for tag, _ in seen.tags) == 2
    assert not any("onerror" in a for _, a in seen.tags)
    for name in NASTY:
        assert name in seen.text


@pytest.mark.few(1)
@pytest.mark.parametrize("escaped", [True, False])
@pytest.mark.parametrize("policy", [True, False])
def test_either_defence_is_enough(page, tmp_path, escaped, policy):
    """Without both protections the attack succeeds in the browser."""
    text = page.read_text(encoding="utf-8")
    if not policy:
        text = re.sub("<meta http-equiv=[^>]*>", "", text)
    if not escaped:
        for character in "<>'":
            text = text.replace(f"\\u{ord(character):04x}", character)
    (tmp_path / "broken.html").write_text(text, encoding="utf-8")
    seen = rendered(tmp_path / "broken.html", tmp_path / "profile")
    assert (seen.title == "owned") == (not escaped and not policy)


@pytest.mark.few(0)
def test_browser_shows_filters_and_sorts(page, tmp_path):
    """A link with filters shows the matching examples, sorted."""
    report = report_of()
    seen = rendered(page, tmp_path)
    assert len(seen.column("suspected", 0)) == 18
    assert len(seen.column("highest", 0)) == 24
    assert "Page 1 of 2" in seen.text
    seen = rendered(page, tmp_path, "#label=1&suspected=1&sort=score")
    wanted = np.flatnonzero(
        report.label_issues["is_label_issue"]
        & (report.label_issues["given_label"] == 1)
    )
    wanted = wanted[np.argsort(-report.scores[wanted])]
    assert [int(i) for i in seen.column("suspected", 0)] == wanted.tolist()
    assert set(seen.column("highest", 1)) == {NASTY[1]}
    assert set(seen.column("highest", 2)) == {NASTY[2]}
    values = seen.column("suspected", 3)
    np.testing.assert_allclose(
        [float(v) for v in values], report.scores[wanted], atol=1e-3
    )
    assert seen.sections["lowest"] == []


def test_browser_follows_the_controls(page, tmp_path):
    """A script in a copy of the page acts as a user."""
    text = page.read_text(encoding="utf-8")
    text = re.sub("<meta http-equiv=[^>]*>", "", text)
    steps = """<script>
    const form = document.getElementById("controls");
    const set = (name, key, value) => {
      form.elements[name][key] = value;
      form.elements[name].dispatchEvent(new Event("input", { bubbles: true }));
    };
    const count = () =>
      document.querySelectorAll("#suspected tbody tr").length;
    const seen = [count()];
    document.querySelectorAll("#highest .pager button")[1].click();
    seen.push(document.querySelectorAll("#highest tbody tr").length);
    set("label", "value", "2");
    set("sort", "value", "quality");
    set("suspected", "checked", true);
    seen.push(count(), location.hash);
    form.querySelector("button").click();
    seen.push(count(), location.hash, form.elements.label.value);
    location.hash = "#predicted=1";
    window.addEventListener("hashchange", () => {
      seen.push(count(), form.elements.predicted.value);
      document.title = JSON.stringify(seen);
    });
    </script></body>"""
    copy = tmp_path / "copy.html"
    copy.write_text(text.replace("</body>", steps), encoding="utf-8")
    seen = json.loads(rendered(copy, tmp_path / "profile").title)
    hash_ = "#label=2&sort=quality&suspected=1"
    assert seen == [18, 16, 6, hash_, 18, "", "", 6, "1"]


def test_browser_finds_text_and_forgives_bad_links(page, tmp_path):
    seen = rendered(page, tmp_path, "#text=ONERROR&suspected=1")
    found = seen.sections["suspected"]
    assert found
    assert all(NASTY[1] in row[1:3] for row in found if row)
    seen = rendered(page, tmp_path, "#sort=constructor&label=%3Cb%3E")
    assert "All 18." in seen.text


def test_browser_shows_images_and_regression(tmp_path):
    path = tmp_path / "audit.html"
    shown = show_inputs(images(), None)
    write_audit(report_of("regression"), shown, path, 30, "Title")
    seen = rendered(path, tmp_path / "profile")
    assert seen.title == "Title"
    rows = [row for row in seen.sections["highest"] if row]
    assert len(rows) == 24
    order = np.argsort(-report_of().scores)
    assert rows[0][1] == str(order[0])
    sources = [a["src"] for tag, a in seen.tags if tag == "img"]
    assert len(sources) == 18 + 24 + 24
    assert all(s.startswith("data:image/png;base64,") for s in sources)
    assert "Suspected bad targets" in seen.text
