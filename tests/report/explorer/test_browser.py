"""The page in a real browser: choose, ask for a target, compare, download, come back by a link, read only."""

import csv
import io
import json
import math
import operator
import random
import shlex
import shutil
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from pbdist import open_study
from pbdist.cli import main
from pbdist.query.noise_choice import noise_choices
from pbdist.report.explorer.export import exported
from pbdist.report.explorer.snapshot import Snapshot
from pbdist.rounding import rounded_down, rounded_up, whole_down, whole_up
from pbdist.store.layout import bounds_file
from tests.batches import remove_batch
from tests.report.explorer.browser import a_page, choose, chromium, settled
from tests.report.explorer.reading import leaves
from tests.report.explorer.studies import HOSTILE, serving

pytestmark = pytest.mark.browser
#: The bounds in a CSV file, and in a store.
COLUMNS = {
    "delta_lower [1]": "delta_lower",
    "delta_upper [1]": "delta_upper",
    "log_delta_lower [nats]": "log_delta_lower",
    "log_delta_upper [nats]": "log_delta_upper",
}


@pytest.fixture(scope="module")
def browser():
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def bounds(store):
    return open_study(store).bounds.max("direction").load()


@pytest.fixture(scope="module")
def address(store):
    with serving(store) as port:
        yield f"http://127.0.0.1:{port}/"


@pytest.fixture(scope="module")
def exported_file(store, tmp_path_factory):
    path = tmp_path_factory.mktemp("exported") / "page.html"
    path.write_text(exported(Snapshot(str(store))), encoding="utf-8", newline="\n")
    return path.as_uri()


@pytest.fixture(scope="module")
def loaded(browser, address):
    permissions = ["clipboard-read", "clipboard-write"]
    with a_page(browser, viewport={"width": 1200, "height": 900}, permissions=permissions) as found:
        found.goto(address)
        settled(found)
        yield found


@pytest.fixture
def page(loaded):
    """The served page with its first choice."""
    loaded.bring_to_front()
    follow(loaded, "#")
    return loaded


def follow(page, link: str) -> None:
    """Go to a link of the page that is open."""
    # Not by location.hash, which sends the event later.
    page.evaluate(
        "to => { history.replaceState(null, '', to); dispatchEvent(new HashChangeEvent('hashchange')) }", link
    )
    settled(page)


def state_of(page) -> dict[str, str]:
    # The address follows after a pause.
    page.wait_for_timeout(300)
    return dict(part.split("=") for part in page.evaluate("location.hash")[1:].split("&"))


def downloaded(page, selector: str) -> str:
    with page.expect_download() as found:
        page.click(selector)
    return found.value.path().read_text(encoding="utf-8")


def test_choices_show_the_bounds_of_the_store_rounded_outwards(page, bounds):
    drawn = random.Random(1)  # noqa: S311 -- no secret
    labels = page.eval_on_selector_all("#label option", "all => all.map((one) => one.value)")
    assert labels == ["Gaussian", "sensitive", "RandomizedResponse", "counts", "unattained", HOSTILE]
    for label in labels:
        choose(page, "label", label)
        if page.is_visible("#group-row"):
            choose(page, "group", page.eval_on_selector_all("#group option", "all => all.at(-1).value"))
        if page.is_visible("#amount-row"):
            choose(page, "amount-range", "1")
        r, e = drawn.randrange(3), drawn.randrange(1, 5)
        choose(page, "rounds-range", str(r))
        choose(page, "epsilon-range", str(e))
        cell = int(state_of(page)["s"])
        point = bounds.isel(cell=cell, compositions=r, epsilon=e)
        assert str(point["mechanism"].item()) == label
        lower, upper = page.locator("#settings tbody tr").first.locator("td").all_inner_texts()[:2]
        assert upper == text_of(point, "upper")
        assert lower == ("not known" if label == "unattained" else text_of(point, "lower"))


def text_of(point, side: str) -> str:
    """A bound as it is printed: by the logarithm where the float has few digits."""
    value, log = float(point[f"delta_{side}"]), float(point[f"log_delta_{side}"])
    if value > 2.3e-308 or log == -math.inf:
        return (rounded_up if side == "upper" else rounded_down)(value)
    return outwards(log, ROUND_CEILING if side == "upper" else ROUND_FLOOR)


def outwards(log: float, rounding: str) -> str:
    exact = Context(prec=60, Emin=-(10**9)).exp(Decimal(log))
    return f"{Context(prec=6, rounding=rounding, Emin=-(10**9)).create_decimal(exact):.5e}"


def test_rounding_is_pythons_and_never_inwards(page):
    draw = np.random.default_rng(7)
    values = 10.0 ** draw.uniform(-300, 0, 4_000)
    values = np.concatenate(
        [values, draw.random(2_000), np.round(draw.random(2_000), 6), np.round(draw.random(1_000), 3)]
    )
    edges = [0.0, 1.0, 0.5, 0.25, 0.1, 1e-3, 9.99999e-4, 0.999999, 0.9999995, 2.3e-308, 1e-300, 1.7976931348623157e308]
    values = [*values.tolist(), *edges, *np.nextafter(edges, 2).tolist(), *np.nextafter(edges, 0).tolist()]
    values = [value for value in values if value == 0.0 or value >= 2.3e-308]
    told = page.evaluate("all => all.map((one) => [explorer.rounded(one, false), explorer.rounded(one, true)])", values)
    assert told == [[rounded_down(value), rounded_up(value)] for value in values]


def test_all_digits_of_a_bound_are_a_bound_and_those_of_python(page):
    draw = np.random.default_rng(9)
    edges = np.array([0.0, 1.0, 0.1, 1e-3, 1e23, 5e-324, 1.7976931348623157e308])
    values = np.concatenate([10.0 ** draw.uniform(-300, 300, 2_000), draw.random(2_000), edges, np.nextafter(edges, 0)])
    values = np.concatenate([values, -values]).tolist()
    written = page.evaluate("all => all.map((one) => [explorer.whole(one, false), explorer.whole(one, true)])", values)
    for value, (lower, upper) in zip(values, written, strict=True):
        assert float(lower) == float(upper) == value
        assert Fraction(lower) <= Fraction(value) <= Fraction(upper)
        assert Decimal(lower) == Decimal(whole_down(value))
        assert Decimal(upper) == Decimal(whole_up(value))


def test_what_float64_cannot_hold_is_rounded_outwards_by_its_logarithm(page):
    draw = np.random.default_rng(8)
    logs = [*(-np.exp(draw.uniform(np.log(700), np.log(1e8), 2_000))).tolist(), -708.4, -1e6, -math.log(10) * 400]
    told = page.evaluate(
        "all => all.map((one) => [explorer.roundedPower(one, false), explorer.roundedPower(one, true)])", logs
    )
    wide = Context(prec=60, Emin=-(10**9))
    for log, (lower, upper) in zip(logs, told, strict=True):
        truth = wide.exp(Decimal(log))
        assert Decimal(lower) < truth < Decimal(upper)
        assert (Decimal(upper) - Decimal(lower)) / truth < Decimal("2.1e-5")
    assert page.evaluate("[explorer.roundedPower(-1e12, false), explorer.roundedPower(-1e12, true)]") == [
        "1.00000e-434294481905",
        "1.00000e-434294481902",
    ]


def test_the_certificate_is_that_of_noise_choices(page, store):
    study = open_study(store)
    for r, e, delta in ((1, 3, 1e-5), (1, 3, 0.5), (2, 2, 1e-12), (0, 0, 0.03), (2, 0, 1e-3)):
        choose(page, "rounds", str(study.spec.compositions[r]))
        choose(page, "epsilon", repr(study.spec.epsilon[e]))
        choose(page, "delta", repr(delta))
        target = {"compositions": study.spec.compositions[r], "epsilon": study.spec.epsilon[e], "delta": delta}
        (choice,) = noise_choices(study, **target, mechanism="Gaussian")
        text = page.inner_text("#certificate")
        if choice.smallest is None:
            assert "No tabulated noise of these settings is known to meet the target." in text
        else:
            found = choice.smallest
            assert f"meets the target: scale {found.amount:g}. δ is at most {rounded_up(found.upper)}." in text
        if choice.refuted is not None:
            found = choice.refuted
            assert f"refuted: scale {found.amount:g}. δ is at least {rounded_down(found.lower)}." in text
        meeting = sum(one.verdict.value == "meets" for one in choice.tried)
        refuted = sum(one.verdict.value == "refuted" for one in choice.tried)
        assert f"Of these 6 settings: {meeting} meets, {refuted} refuted" in text
    page.locator("#certificate button").first.click()
    settled(page)


def test_a_value_that_is_not_tabulated_is_told_with_the_command_that_computes_it(page):
    choose(page, "epsilon-range", "1")
    before = state_of(page)
    base = f"{page.inner_text('#command').partition(' --scale')[0]} "
    for control, value, told, command in (
        ("epsilon", "0.9", "ε = 0.9 is not tabulated: 0.6931471805599453 and 1 are next to it.",
         "--scale=5.0 --compositions=16 --epsilon=0.9"),
        ("rounds", "17", "r = 17 is not tabulated: 16 and 1024 are next to it.",
         "--scale=5.0 --compositions=17 --epsilon=0.5"),
        ("amount", "6", "6 is not tabulated: 5 and 10 are next to it.", "--scale=6 --compositions=16 --epsilon=0.5"),
        ("delta", "2", "Expected a number above 0 and below 1.", None),
        ("epsilon", "", "Expected a number.", None),
        ("amount", "", "Expected a number.", None),
    ):  # fmt: skip
        follow(page, "#")
        choose(page, "epsilon-range", "1")
        page.fill(f"#{control}", value)
        assert stale(page) == ALL, "as soon as it is typed"
        page.press(f"#{control}", "Tab")
        settled(page)
        assert page.inner_text(f"#{control}-hint") == told
        assert stale(page) == ALL
        assert page.is_disabled("#link")
        assert page.is_disabled("#add")
        if command is None:
            assert "Correct the choice" in page.inner_text("#status")
        else:
            assert page.inner_text("#refine") == f"{base}{command} --refine"
            assert "without --refine it answers if the stored points prove bounds" in page.inner_text("#status")
        assert state_of(page) == before
    choose(page, "amount-range", "0")
    assert stale(page) == set()
    assert page.inner_text("#status") == ""


def test_between_settings_without_an_order_no_answer_is_promised(page, capsys):
    choose(page, "label", "counts")
    choose(page, "amount", "15")
    assert "without --refine there is no answer, as no order between" in page.inner_text("#status")
    assert main(shlex.split(page.inner_text("#refine").removesuffix(" --refine"))[1:]) == 2
    assert "no order is known between noise settings of its kind" in capsys.readouterr().err
    choose(page, "amount-range", "0")
    choose(page, "rounds", "17")
    assert "without --refine it answers if" in page.inner_text("#status")


def test_the_command_offered_off_the_grid_answers(browser, store, tmp_path, capsys):
    copy = Path(shutil.copytree(store, tmp_path / "s.zarr"))
    with serving(copy) as port, a_page(browser) as page:
        page.goto(f"http://127.0.0.1:{port}/")
        settled(page)
        choose(page, "axis", "y")
        for control, value in (("amount", "6"), ("rounds", "3"), ("epsilon", "2.5")):
            choose(page, control, value)
        _, *words = shlex.split(page.inner_text("#refine"))
        assert main([*words, "--json"]) == 0
        found = leaves(json.loads(capsys.readouterr().out))
        assert found["setting"].startswith("Gaussian(scale=6")
        assert (found["compositions"], found["exp_epsilon"]) == (3, 2.5)
        page.reload()
        settled(page)
        assert "Queries have added" in page.inner_text("#notices")


ALL = {"verdict", "curve", "noise", "growth"}


def stale(page) -> set[str]:
    """The answers that are grey, which nobody can use."""
    found = page.eval_on_selector_all(".answer.stale", "all => all.map((one) => [one.id, one.inert])")
    assert all(inert for _, inert in found)
    return {name.removesuffix("-answer") for name, _ in found}


def test_answers_are_grey_until_they_are_those_to_the_choice(browser, address):
    held = []
    with a_page(browser, expected="Failed to load resource") as page:
        page.goto(address)
        settled(page)
        assert stale(page) == set()
        # A request that is under way.
        page.route("**/*.json?*", lambda route: held.append(route))  # noqa: PLW0108 -- a method of a list takes no attributes
        page.eval_on_selector("#amount-range", "one => { one.value = 1; one.dispatchEvent(new Event('input')) }")
        page.wait_for_timeout(200)
        assert stale(page) == ALL
        assert "scale 5)" in page.inner_text("#verdict"), "the old verdict, in grey"
        held.pop().continue_()
        page.wait_for_selector("#verdict-answer:not(.stale)")
        assert "scale 10)" in page.inner_text("#verdict")
        page.eval_on_selector("#rounds-range", "one => { one.value = 2; one.dispatchEvent(new Event('input')) }")
        page.wait_for_selector("#growth-answer:not(.stale)")
        assert stale(page) == {"noise"}, "the settings of the group are not read yet"
        # It fails.
        held.pop().abort()
        settled(page)
        assert stale(page) == {"noise"}
        assert "The server does not answer" in page.inner_text("#status")
        page.unroute("**/*.json?*")
        page.route("**/*.json?*", lambda route: route.abort())
        choose(page, "label", "counts")
        assert stale(page) == ALL
        assert "No answer to this choice: The server does not answer" in page.inner_text("#status")
        page.unroute("**/*.json?*")
        choose(page, "rounds-range", "1")
        assert stale(page) == set()
        assert page.inner_text("#status") == ""
        assert "does not answer" not in page.inner_text("#notices")


def test_it_opens_at_the_targets_of_the_study(page):
    assert "after 16 rounds at ε = 0.6931471805599453 (e^ε = 2): refuted" in page.inner_text("#verdict")
    assert "δ ≤ 1e-4 is refuted" in page.inner_text("#verdict")
    texts = page.locator("#target option").all_inner_texts()
    assert texts == ["r = 16, ε ≈ 0.693147, δ ≤ 1e-4", "r = 1,024, ε = 1, δ ≤ 1e-6"]
    # The rounded number in its field means the exact one.
    assert page.input_value("#epsilon") == "0.693147"
    assert page.inner_text("#epsilon-hint").startswith("ε = 0.6931471805599453, e^ε = 2;")
    choose(page, "epsilon", "0.693147")
    assert stale(page) == set()
    assert state_of(page)["e"] == "0.6931471805599453"
    choose(page, "target", "1")
    assert {name: state_of(page)[name] for name in "red"} == {"r": "1024", "e": "1", "d": "1e-6"}
    choose(page, "delta", "1e-7")
    assert page.eval_on_selector("#target", "one => one.selectedOptions[0].textContent") == "another target"


@pytest.mark.parametrize(("width", "beside"), [(1200, True), (390, False)])
def test_legends_stand_beside_the_figures_and_on_a_phone_below(browser, address, width, beside):
    with a_page(browser, viewport={"width": width, "height": 900}) as page:
        page.goto(address)
        settled(page)
        for place in ("1", "2", "3"):
            choose(page, "amount-range", place)
            page.click("#add")
        choose(page, "label", HOSTILE)
        for name in ("curve", "growth", "noise"):
            figure, legend = (page.locator(selector).bounding_box() for selector in (f"#{name}", f"#{name}-legend"))
            if beside:
                assert legend["x"] >= figure["x"] + figure["width"]
            else:
                assert legend["y"] >= figure["y"] + figure["height"]
            assert legend["x"] + legend["width"] <= width
            assert figure["width"] >= 0.6 * min(width, 1100)
        names = page.locator("#curve-legend li").all_inner_texts()
        assert names == [f"{HOSTILE} (scale 3)", *(f"Gaussian (scale {one})" for one in (10, 20, 40)), "target δ"]
        drawing = ElementTree.fromstring(downloaded(page, "[data-svg=curve]"))  # noqa: S314 -- our own
        assert set(names) <= {text.text for text in drawing.iter("{http://www.w3.org/2000/svg}text")}


def test_a_comparison_comes_back_by_its_link(page, browser):
    for place in ("1", "3", "5"):
        choose(page, "amount-range", place)
        page.click("#add")
        settled(page)
    choose(page, "label", "counts")
    choose(page, "axis", "y")
    choose(page, "epsilon", "2")
    choose(page, "delta", "1e-7")
    rows = page.locator("#settings tbody tr")
    assert rows.count() == 4
    state = state_of(page)
    assert state["c"] == "1.3.5"
    assert (state["y"], state["d"], state["r"]) == ("2", "1e-7", "16")
    assert len(page.evaluate("location.hash")) < 60
    table, told, link = page.inner_text("#settings"), page.inner_text("#verdict"), page.url
    with a_page(browser) as other:
        other.goto(link)
        settled(other)
        assert (other.inner_text("#settings"), other.inner_text("#verdict")) == (table, told)
        assert state_of(other) == state_of(page)
        other.reload()
        settled(other)
        assert other.inner_text("#settings") == table
    rows.nth(1).get_by_role("button", name="Remove").click()
    settled(page)
    assert state_of(page)["c"] == "3.5"


WRONG_LINKS = {
    "#h=00000000&s=3": "The link is of another store (00000000, this one is",
    "#s=3": "The link is of no store",
    "#h=DIGEST&s=999": "The link's noise setting is not in this store",
    "#h=DIGEST&r=17": "The link's number of rounds is not in this store",
    "#h=DIGEST&e=0.3": "The link's ε is not in this store",
    "#h=DIGEST&d=x": "The link's δ is not in this store",
    "#h=DIGEST&c=1.2.3.4.5.6.x": "Part of the link's comparison is left out",
    "#h=DIGEST&s=%3Cimg%20src=x%3E": "The link's noise setting is not in this store",
}


def test_wrong_links_are_told(page):
    digest = state_of(page)["h"]
    for link, told in WRONG_LINKS.items():
        follow(page, link.replace("DIGEST", digest))
        assert told in page.inner_text("#notices"), link


def test_files_have_what_is_shown_with_all_digits(page, bounds):
    page.click("#add")
    choose(page, "amount-range", "4")
    spec = bounds["epsilon"].values.tolist()
    rows = list(csv.DictReader(io.StringIO(downloaded(page, "[data-csv=curve]"))))
    assert [row["setting"] for row in rows] == ["Gaussian(scale=80, sensitivity=1)"] * 6 + [
        "Gaussian(scale=5, sensitivity=1)"
    ] * 6
    for place, row in enumerate(rows):
        compare(row, bounds.isel(cell=4 if place < 6 else 0, compositions=1, epsilon=place % 6))
        assert float(row["epsilon [nats]"]) == spec[place % 6]
        assert row["command"].endswith(
            f"--compositions=16 --epsilon={spec[place % 6]:.17g}".replace(".69314718055994529", ".6931471805599453")
        )
    for place, row in enumerate(csv.DictReader(io.StringIO(downloaded(page, "[data-csv=growth]")))):
        compare(row, bounds.isel(cell=4 if place < 3 else 0, compositions=place % 3, epsilon=2))
    for place, row in enumerate(csv.DictReader(io.StringIO(downloaded(page, "[data-csv=noise]")))):
        compare(row, bounds.isel(cell=place, compositions=1, epsilon=2))
        assert float(row["amount [scale of the noise, in counts]"]) == bounds["scale"].values[place]
    for name in ("curve", "growth", "noise"):
        drawing = ElementTree.fromstring(downloaded(page, f"[data-svg={name}]"))  # noqa: S314 -- our own
        texts = {text.text for text in drawing.iter("{http://www.w3.org/2000/svg}text")}
        assert "δ" in texts
        assert any(text and text.startswith("10⁻") for text in texts)
        assert len(list(drawing.iter("{http://www.w3.org/2000/svg}path"))) > 10


def compare(row, point) -> None:
    for head, name in COLUMNS.items():
        assert float(row[head]) == float(point[name])
        if math.isfinite(point[name]):
            rounded_inwards = operator.gt if "lower" in name else operator.lt
            assert not rounded_inwards(Fraction(row[head]), Fraction(float(point[name])))


def test_a_spreadsheet_takes_no_text_for_a_formula(page):
    assert page.evaluate("['=1+1', '+x', '@x', '-x', '-1', 'a,\"b', 1e-7, NaN].map(explorer.csvCell)") == [
        "'=1+1", "'+x", "'@x", "'-x", "-1", '"a,""b"', "1e-7", "",
    ]  # fmt: skip


def test_commands_and_links_are_copied(page):
    state_of(page)
    page.locator("#settings tbody tr").first.get_by_role("button").first.click()
    page.wait_for_selector("#said:not(:empty)")
    command = page.evaluate("navigator.clipboard.readText()")
    assert command.endswith("--mechanism=Gaussian --scale=5.0 --compositions=16 --epsilon=0.6931471805599453")
    for button, expected in (("#copy", page.inner_text("#command")), ("#link", page.url)):
        page.click(button)
        page.wait_for_timeout(100)
        assert page.evaluate("navigator.clipboard.readText()") == expected


def test_hovering_tells_a_points_bounds_and_a_click_chooses_it(page, bounds):
    choose(page, "amount-range", "2")
    figure = page.locator("#curve")
    figure.scroll_into_view_if_needed()
    x, y = page.evaluate(
        """() => {
          const view = Object.values(Bokeh.index).flatMap((one) => [one, ...(one.child_views ?? [])])
            .find((one) => document.getElementById("curve").contains(one.el))
          const box = view.canvas_view.el.getBoundingClientRect()
          const points = view.model.renderers.at(-1).data_source.data
          const scale = (axis, value) => view.frame[`${axis}_scale`].compute(value)
          return [box.x + scale("x", points.x[3]), box.y + scale("y", points.y[3])]
        }"""
    )
    page.mouse.move(x - 3, y)
    page.mouse.move(x, y)
    point = bounds.isel(cell=2, compositions=1, epsilon=3)
    tip = page.locator(".bk-tooltip-content").inner_text()
    for told in ("1 nats", "2.718281828", text_of(point, "lower"), text_of(point, "upper"), "Gaussian (scale 20)"):
        assert told in tip
    page.mouse.click(x, y)
    page.wait_for_timeout(100)
    settled(page)
    assert state_of(page)["e"] == "1"


def test_epsilon_is_told_exactly(page):
    # Rounded down it would be a smaller ε than the bounds are proved for.
    choose(page, "epsilon-range", "2")
    assert "ε = 0.6931471805599453 " in page.inner_text("#verdict")


def test_faint_delta_has_its_place(page, bounds):
    choose(page, "amount-range", "5")
    choose(page, "rounds-range", "0")
    choose(page, "epsilon-range", "5")
    assert float(bounds["log_delta_upper"].isel(cell=5, compositions=0, epsilon=5)) < -1e6
    drawing = downloaded(page, "[data-svg=curve]")
    assert "10⁻²⁰⁰⁰⁰⁰⁰" in drawing
    upper = page.locator("#settings tbody tr").first.locator("td").nth(1).inner_text()
    assert upper == text_of(bounds.isel(cell=5, compositions=0, epsilon=5), "upper")
    assert "meets" in page.inner_text("#verdict")


def test_the_exported_file_says_the_same_without_a_server(page, browser, exported_file):
    with a_page(browser) as file:
        file.goto(exported_file)
        settled(file)
        labels = page.eval_on_selector_all("#label option", "all => all.map((one) => one.value)")
        for turn, label in enumerate(labels):
            for each in (page, file):
                choose(each, "label", label)
                choose(each, "rounds-range", str(turn % 3))
                choose(each, "epsilon-range", str((turn + 1) % 6))
                choose(each, "delta-range", str(-1.5 - 2 * turn))
            for shown in ("#verdict", "#settings", "#certificate"):
                assert file.inner_text(shown) == page.inner_text(shown)
            assert state_of(file) == state_of(page)
        link = file.url
        file.goto("about:blank")
        file.goto(link)
        settled(file)
        assert file.inner_text("#verdict") == page.inner_text("#verdict")
        assert downloaded(file, "[data-csv=curve]") == downloaded(page, "[data-csv=curve]")
        assert "10⁻" in downloaded(file, "[data-svg=growth]") or "1</text>" in downloaded(file, "[data-svg=growth]")


def test_the_keyboard_is_enough(page):
    visited = []
    page.focus(".skip")
    for _ in range(40):
        page.keyboard.press("Tab")
        visited.append(page.evaluate("document.activeElement.id || document.activeElement.textContent"))
        if visited[-1] == "add":
            break
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline != "none", visited[-1]
    controls = "label amount amount-range rounds rounds-range axis epsilon epsilon-range delta"
    assert set(controls.split()) <= set(visited)
    page.keyboard.press("Enter")
    settled(page)
    assert page.locator("#settings tbody tr").count() == 1
    assert state_of(page)["c"] == "0"
    page.focus("#amount-range")
    page.keyboard.press("ArrowRight")
    settled(page)
    assert state_of(page)["s"] == "1"
    assert "Gaussian (scale 10)" in page.inner_text("#verdict")
    assert page.locator("#settings tbody tr").count() == 2
    page.focus("#epsilon-range")
    page.keyboard.press("End")
    settled(page)
    assert state_of(page)["e"] == "20"


@pytest.mark.parametrize("width", [360, 800])
def test_small_screens_need_no_scrolling_sideways(browser, address, width):
    with a_page(browser, viewport={"width": width, "height": 700}, has_touch=True, is_mobile=True) as page:
        page.goto(address)
        settled(page)
        page.click("#add")
        choose(page, "label", HOSTILE)
        page.wait_for_timeout(200)
        assert page.evaluate("document.documentElement.scrollWidth") == width
        assert page.evaluate("document.querySelector('#curve').getBoundingClientRect().width") <= width


def test_dark_and_light_follow_the_system(browser, address):
    seen = {}
    with a_page(browser, color_scheme="dark") as page:
        page.goto(address)
        settled(page)
        for scheme in ("dark", "light"):
            page.emulate_media(color_scheme=scheme)
            page.wait_for_timeout(100)
            settled(page)
            paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
            seen[scheme] = paper, downloaded(page, "[data-svg=curve]")
    assert seen["dark"][0] == "rgb(20, 22, 26)"
    assert seen["light"][0] == "rgb(255, 255, 255)"
    assert "#14161a" in seen["dark"][1]
    assert "#14161a" not in seen["light"][1]


def test_what_a_store_lacks_is_a_gap_and_is_told(browser, store, tmp_path):
    copy = Path(shutil.copytree(store, tmp_path / "s.zarr"))
    remove_batch(copy, 2)
    damaged = copy / bounds_file(4)
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"?")
    with serving(copy) as port, a_page(browser) as page:
        page.goto(f"http://127.0.0.1:{port}/")
        settled(page)
        page.wait_for_selector("text=Part of this store is damaged: the files of 1 noise setting have")
        assert "1 of 19 noise settings are missing" in page.inner_text("#notices")
        for place, told in (("2", "not computed yet"), ("4", "damaged: its files have changed or are missing")):
            choose(page, "amount-range", place)
            assert f"not computed. Not known: {told}." in page.inner_text("#verdict")
            assert page.get_attribute("#curve", "data-drawn") == "0"
            assert page.locator("#settings tbody tr td").first.inner_text() == "not computed"
        assert "2 not computed" in page.inner_text("#certificate")
        assert page.get_attribute("#noise", "data-drawn") == "4"


def test_a_store_that_changes_says_so_and_is_shown_after_loading_again(browser, store, tmp_path):
    copy = Path(shutil.copytree(store, tmp_path / "s.zarr"))
    record = copy / bounds_file(0)
    kept = record.read_bytes()
    record.unlink()
    # The browser tells of the refused requests on its console.
    with serving(copy) as port, a_page(browser, expected="409 (Conflict)") as page, a_page(browser) as other:
        page.goto(f"http://127.0.0.1:{port}/")
        settled(page)
        record.write_bytes(kept)
        other.goto(f"http://127.0.0.1:{port}/")
        settled(other)
        assert "not complete" not in other.inner_text("#notices")
        choose(page, "amount-range", "1")
        assert "the store has changed since this page was loaded: load it again" in page.inner_text("#notices")
        page.reload()
        settled(page)
        assert "not complete" not in page.inner_text("#notices")
        assert "refuted" in page.inner_text("#verdict")
