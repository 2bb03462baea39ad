"""The pages in a browser: an analyst's first table, refusals, approvals, and the keeper's desk."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from dpstats.office.request import from_result

# Workers outlive the pool that has started them; streams of Playwright's driver end with the process.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::ResourceWarning")]

WITHOUT_SCRIPT = pytest.mark.parametrize("context", [{"java_script_enabled": False}], indirect=True)


def enter(context: Any, address: str, token: str) -> Any:
    """A page of whoever has the token."""
    page = context.new_page()
    page.goto(address)
    page.get_by_label("Token").fill(token)
    page.keyboard.press("Enter")
    page.wait_for_url(f"{address}/")
    return page


def plan(page: Any, address: str, dataset: str, formula: str, eps: str = "0.5") -> None:
    """Type a request, and wait for its plan or its refusal."""
    page.goto(f"{address}/data/{dataset}/ask")
    page.get_by_label("Budget, eps").fill(eps)
    page.get_by_label("Formula").fill(formula)
    page.locator("#plan:not([aria-busy]) .plan, #plan:not([aria-busy]) .error").first.wait_for()


def width(picture: Any) -> int:
    """How wide a picture is in its file, once it is there: a busy machine may take long to draw it."""
    picture.scroll_into_view_if_needed()
    picture.evaluate("image => image.decode()")
    return int(picture.evaluate("image => image.naturalWidth"))


def test_a_first_table(place: Any, context: Any, token: str, tmp_path: Path) -> None:
    """From the token to the table, its picture and its files."""
    page = enter(context, place.analysts, token)
    page.get_by_role("link", name="Codebook").first.click()
    assert page.get_by_role("row", name="an explanatory number").is_visible()
    page.get_by_label("Search the columns").fill("explan")
    assert page.locator("#codebook tbody tr:visible").count() == 1
    assert page.get_by_text("1 of 3 columns").is_visible()

    plan(page, place.analysts, "survey", "y ~ x + g")
    shown = page.locator("#plan")
    assert "g[T.b]" in shown.inner_text()
    page.get_by_text("The same in Python and R").click()
    assert "office.glm('y ~ x + g', 'survey'" in shown.inner_text()
    page.get_by_role("button", name="Spend 0.5 of 10 left and release").click()
    page.get_by_text("is in preparation").wait_for()
    page.get_by_role("heading", name="Take it with you").wait_for()

    job = place.service.jobs(place.service.analyst_of(token) or "")[0]
    released = from_result(place.service.job(job.analyst, job.id).result or {})
    cells = page.locator(".simpletable").first.inner_text()
    assert all(name in cells for name in released.params.index)
    assert width(page.locator("img.picture").first) > 300

    files = {}
    for name in ("JSON", "CSV", "LaTeX", "HTML", "Word"):
        with page.expect_download() as download:
            page.get_by_role("link", name=name, exact=True).click()
        path = tmp_path / download.value.suggested_filename
        download.value.save_as(path)
        files[path.suffix] = path.read_bytes()
    assert from_result(json.loads(files[".json"])).params.equals(released.params)
    assert files[".csv"].decode().count("\n") == 4
    assert b"\\begin{tabular}" in files[".tex"]
    assert b"<table" in files[".html"]
    assert files[".docx"].startswith(b"PK")


def test_what_is_planned_is_bought_once(place: Any, context: Any, token: str) -> None:
    """The button is off while the plan is of an older text, and a second press of it is the same request."""
    page = enter(context, place.analysts, token)
    plan(page, place.analysts, "survey", "y ~ x")
    page.get_by_label("Formula").press_sequentially(" + g")
    assert page.get_by_role("button", name="Spend").is_disabled()
    page.locator("#plan:not([aria-busy]) .plan").wait_for()
    form = page.locator("#plan form").first
    sent = {field.get_attribute("name"): field.input_value() for field in form.locator("input").all()}
    answers = [context.request.post(f"{place.analysts}/data/survey/release", form=sent) for _ in range(2)]
    assert answers[0].url == answers[1].url
    assert len(place.service.jobs(place.service.analyst_of(token) or "")) == 1


@pytest.mark.parametrize(
    ("formula", "eps", "words"),
    [
        ("y ~ z", "0.5", "z"),
        ("y ~ x - x.mean()", "0.5", "mean"),
        ("y ~ x", "much", "eps must be a number"),
        ("y ~ x", "3", "at most 2"),
    ],
)
def test_refusals_say_what_to_type(place: Any, context: Any, token: str, formula: str, eps: str, words: str) -> None:
    page = enter(context, place.analysts, token)
    plan(page, place.analysts, "survey", formula, eps)
    assert words in page.get_by_role("alert").inner_text()
    assert not page.get_by_role("button", name="Spend").count()
    assert not place.service.jobs(place.service.analyst_of(token) or "")


def test_a_keeper_approves_and_refuses(place: Any, context: Any, token: str) -> None:
    """Two requests wait; the analyst's pages show by themselves what became of them."""
    wanted, unwanted = (enter(context, place.analysts, token), context.new_page())
    for page, label in ((wanted, "wanted"), (unwanted, "unwanted")):
        plan(page, place.analysts, "panel", "y ~ x")
        page.get_by_text("Rows, label and options").click()
        page.get_by_label("Label", exact=False).last.fill(f"<b>{label}</b>")
        page.locator("#plan[aria-busy]").wait_for()
        page.locator("#plan:not([aria-busy]) .plan").wait_for()
        page.get_by_role("button", name="Ask to spend 0.5").click()
        page.get_by_text("waits for the keeper.").wait_for()
    keeper = enter(context, place.keepers, place.keeper)
    for label, first, button in (("unwanted", "Refuse", "Refuse for good"), ("wanted", "Approve", "Charge eps 0.5")):
        request = keeper.locator("section.panel").filter(has=keeper.get_by_text(f"<b>{label}</b>", exact=True))
        assert not request.get_by_role("button").all()
        request.get_by_text(first, exact=True).focus()
        keeper.keyboard.press("Enter")
        keeper.keyboard.press("Tab")
        assert request.get_by_role("button", name=button).evaluate("button => button === document.activeElement")
        keeper.keyboard.press("Enter")
        request.wait_for(state="detached")
    unwanted.get_by_text("The request was refused.").wait_for()
    wanted.get_by_role("heading", name="Take it with you").wait_for()
    assert not keeper.locator("b").count()


def test_the_keepers_desk(place: Any, context: Any, token: str) -> None:
    """Budgets with a picture, an analyst who comes and goes, the log and the report."""
    keeper = enter(context, place.keepers, place.keeper)
    assert width(keeper.locator("img.picture").first) > 300
    keeper.get_by_role("link", name="Analysts").click()
    keeper.get_by_label("Name").fill("Grace Hopper")
    keeper.keyboard.press("Enter")
    grace = keeper.locator(".token").inner_text()
    page = enter(context, place.analysts, grace)
    row = keeper.get_by_role("row", name="Grace Hopper")
    keeper.goto(f"{place.keepers}/analysts")
    assert grace not in keeper.content()
    row.get_by_role("button", name="Revoke").click()
    row.get_by_text("revoked").wait_for()
    page.goto(f"{place.analysts}/releases")
    assert page.url == f"{place.analysts}/login"
    keeper.get_by_role("link", name="Audit log").click()
    assert keeper.get_by_role("row", name=re.compile("revoke.*Grace Hopper")).count() == 1
    keeper.goto(f"{place.keepers}/budgets/survey/report")
    assert keeper.get_by_role("heading", name="Privacy budget of survey").is_visible()


def test_each_listener_knows_its_own_tokens(place: Any, context: Any, token: str) -> None:
    for address, other in ((place.keepers, token), (place.analysts, place.keeper), (place.analysts, "x" * 43)):
        page = context.new_page()
        page.goto(address)
        page.get_by_label("Token").fill(other)
        page.keyboard.press("Enter")
        assert "not known" in page.get_by_role("alert").inner_text()


def test_a_form_of_another_page_is_refused(place: Any, context: Any, token: str) -> None:
    enter(context, place.analysts, token)
    asked = json.dumps({"verb": "glm", "arguments": {"formula": "y ~ x", "eps": 0.5}, "label": None})
    sent = {"csrf": "x" * 43, "request": asked}
    assert context.request.post(f"{place.analysts}/data/survey/release", form=sent).status == 403
    assert not place.service.jobs(place.service.analyst_of(token) or "")


@WITHOUT_SCRIPT
def test_without_a_script_and_by_keyboard_alone(place: Any, context: Any, token: str) -> None:
    page = context.new_page()
    page.goto(place.analysts)
    page.locator("#token:focus").wait_for()
    page.keyboard.type(token)
    page.keyboard.press("Enter")
    page.wait_for_url(f"{place.analysts}/")
    page.goto(f"{place.analysts}/data/survey?q=explan")
    assert page.locator("#codebook tbody tr").count() == 1
    page.goto(f"{place.analysts}/data/survey/ask")
    page.get_by_label("Formula").focus()
    page.keyboard.type("y ~ x")
    page.keyboard.press("Enter")
    button = page.get_by_role("button", name="Spend 0.5")
    button.wait_for()
    for _ in range(40):
        page.keyboard.press("Tab")
        if button.evaluate("button => button === document.activeElement"):
            break
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Take it with you").wait_for()


@pytest.mark.parametrize("context", [{"viewport": {"width": 400, "height": 800}}], indirect=True)
def test_pages_fit_a_narrow_screen(place: Any, context: Any, token: str) -> None:
    """No page scrolls sideways, every field has a label, and every picture a text."""
    page = enter(context, place.analysts, token)
    plan(page, place.analysts, "survey", "y ~ x + g")
    check(page)
    page.get_by_role("button", name="Spend").click()
    page.get_by_role("heading", name="Take it with you").wait_for()
    check(page)
    for path in ("/", "/data/survey", "/releases", "/releases/none"):
        page.goto(place.analysts + path)
        check(page)
    keeper = enter(context, place.keepers, place.keeper)
    for path in ("/", "/analysts", "/audit"):
        keeper.goto(place.keepers + path)
        check(keeper)


def check(page: Any) -> None:
    assert page.evaluate("document.documentElement.scrollWidth") <= 400, page.url
    bare = "input:not([type=hidden]):not([hidden]), select, textarea"
    assert page.evaluate(f"[...document.querySelectorAll('{bare}')].every(field => field.labels.length > 0)")
    assert page.evaluate("[...document.images].every(image => image.alt.length > 10)")
    assert page.locator("h1").count() == 1
