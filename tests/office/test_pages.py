"""What forms ask for, and what is taken away of a release; tests/browser walks through the pages themselves."""

from __future__ import annotations

import io
import json
import random
import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlencode

import pandas as pd
import pytest
from offices import finished

pytest.importorskip("starlette")
pytest.importorskip("jinja2")

from starlette.requests import Request as Web

import dpstats as dp
from dpstats.errors import ArgumentError, LedgerError
from dpstats.office import pages, reports
from dpstats.office.request import VERBS, Job, Request, to_result
from dpstats.office.security import UNAVAILABLE, Limits, Refused, refusal

ID = "0123456789abcdef" * 2
REQUESTS = (
    Request("survey", "glm", {"formula": "y ~ x", "family": "poisson", "subset": "x > 1", "eps": 0.5}, "table 2"),
    Request("survey", "glm", {"formula": "y ~ x", "family": {"name": "poisson", "y_max": 20}, "eps": 1.0}),
    Request("survey", "glm", {"formula": "y ~ x", "family": "gaussian", "eps": 1.0, "delta": 1e-6, "inference": True}),
    Request("survey", "evaluate", {"fit": ID, "eps": 0.3}),
    Request("survey", "check", {"formula": "y ~ x", "family": "binomial", "eps": 0.1}),
    Request("survey", "release_statistics", {"columns": ["y", "bs(x, df=4)"], "response": "y", "eps": 1.0}),
    Request("survey", "buy_ranges", {"columns": ["x", "z"], "eps": 0.5}),
    Request("survey", "select", {"candidates": [{"fit": ID}, "x > 1", 0.5], "score": "mistakes", "eps": 0.2}),
    Request("survey", "glm", {"formula": "y ~ x", "family": "gaussian", "eps": 1.0, "response": "bought"}),
)


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda one: one.verb)
def test_a_form_can_be_filled_in_with_any_request(request_: Request) -> None:
    """The form of a variant asks for the same before it is changed, and so does the hidden field of a plan."""
    sent = {"verb": request_.verb, **pages.fields_of(request_)}
    assert pages.request_of("survey", sent) == request_
    assert pages.read("survey", pages.written(request_)) == request_


@pytest.mark.parametrize(("verb", "label"), [([], None), ({}, None), (3, None), ("glm", []), (None, None)])
def test_a_hidden_field_of_wrong_types_is_refused(opened: Callable[..., Any], verb: Any, label: Any) -> None:
    text = json.dumps({"verb": verb, "arguments": {"formula": "y ~ x", "eps": 0.5}, "label": label})
    with pytest.raises(ArgumentError, match=r"^verb must be|^label must be"):
        opened().submit("ada", pages.read("survey", text), "k")


def test_a_text_in_a_table_is_no_formula_of_a_spreadsheet() -> None:
    text = 'term,estimate\n=1+1,-0.5\n"@a,b",1e-3\n-x,-inf\nI(x),\n" +2z",+3\n"\tq","a"\n'
    wanted = "term,estimate\n'=1+1,-0.5\n\"'@a,b\",1e-3\n'-x,-inf\nI(x),\n' +2z,+3\n'\tq,a\n"
    assert reports.without_formulas(text) == wanted
    # Blanks that are no space, and signs of full width.
    assert (
        reports.without_formulas("\u00a0=1+1\n\uff1d1\n\u2003@a\n\uff41\n")
        == "'\u00a0=1+1\n'\uff1d1\n'\u2003@a\n\uff41\n"
    )
    fit = dp.ols("y ~ x", pd.DataFrame({"x": [0.5], "y": [0.5]}), eps=1.0, domain={"x": (0, 1), "y": (0, 1)})
    content, _ = reports.export(to_result(fit), "", "csv") or (b"", "")
    assert pd.read_csv(io.BytesIO(content)).equals(fit.tidy())


def test_every_verb_has_a_form() -> None:
    for verb in VERBS.values():
        assert verb.title
        assert set(verb.needed) - {"eps"} <= set(verb.fields)
        assert not {"formula", "response"} <= set(verb.fields)  # a formula names the response itself


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        ({"eps": "a"}, "eps must be a number"),
        ({"eps": "inf"}, "eps must be a number"),
        ({"eps": "1", "delta": "x"}, "delta must be a number, such as 1e-6"),
        ({"eps": "1", "options": "inference = True\nmethod"}, "options, line 2"),
        ({"eps": "1", "options": "inference = __import__('os')"}, "options, line 1"),
        ({"eps": "1", "options": f"x = {'(' * 500}"}, "options, line 1"),
        ({"eps": "1", "options": f"x = {'-' * 50_000}1"}, "options, line 1"),
        ({"eps": "1", "verb": "ols"}, "verb must be one of glm"),
    ],
)
def test_what_cannot_be_read_is_refused(sent: dict[str, str], words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        pages.request_of("survey", {"formula": "y ~ x", **sent})


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"verb": "glm"}', "[" * 100_000, '{"a": NaN}', "\x00"])
def test_a_hidden_field_that_was_changed_is_refused(text: str) -> None:
    with pytest.raises(Refused):
        pages.read("survey", text)


def test_a_form_has_the_limits_of_all_requests() -> None:
    with pytest.raises(Refused, match="at most 8,000 letters"):
        pages.request_of("survey", {"eps": "1", "formula": "y ~ " + "x + " * 9000})


def test_messages_that_name_files_are_not_shown() -> None:
    assert str(refusal(LedgerError("ledger /home/keeper/x.ledger is damaged"))) == UNAVAILABLE
    assert str(refusal(ArgumentError("eps must be positive"))) == "eps must be positive"


def test_figures_have_no_exponents_that_statisticians_would_not_write() -> None:
    shown = [pages.figure(value) for value in (0.5, 5.0, 1999999.0, 1e-6, None, float("inf"), 1 / 3)]
    assert shown == ["0.5", "5", "1,999,999", "1e-06", "none", "none", "0.333333"]
    assert [pages.figure(value, 3) for value in (3701.2, 19500.0, 0.00213)] == ["3,700", "19,500", "0.00213"]


def fits() -> list[Any]:
    wages = dp.datasets.load_wages()
    fit = dp.ols("wage ~ female", wages.data, 1.0, domain=wages.domain)
    return [
        fit,
        dp.evaluate(fit, wages.data, 1.0),
        dp.check("wage ~ female", wages.data, wages.domain, 0.5),
        dp.release_statistics(wages.domain, ["wage", "female"], 1.0, data=wages.data),
        dp.buy_ranges(wages.data, ["wage"], 1.0, domain=wages.domain),
        dp.select([30, 40, 50], "abs(age - candidate) / 40", wages.data, domain=wages.domain, eps=1.0),
    ]


@pytest.mark.slow
def test_every_release_can_be_shown_drawn_and_taken_home() -> None:
    for released in fits():
        stored = json.loads(json.dumps(to_result(released)))
        table, pictures = reports.shown(stored)
        html = pages.printed(table)
        assert "<table" in html
        assert "style=" not in html
        for kind, _ in pictures:
            assert b"<svg" in (reports.picture(stored, kind) or b"")[:2000]
        for kind, _ in reports.exports():
            content, _ = reports.export(stored, "<b>title</b>", kind) or (b"", "")
            assert len(content) > 50
            assert kind == "docx" or b"<b>" not in content
        assert reports.export(stored, "", "exe") is None
        assert reports.picture(stored, "__doc__") is None


def test_the_lines_of_code_do_the_same() -> None:
    web = Web(
        {"type": "http", "scheme": "https", "server": ("office", 443), "path": "/", "headers": [], "root_path": ""}
    )
    lines = reports.code(web, REQUESTS[0], ID)
    assert lines["python"] is not None
    assert lines["python"].splitlines()[2:] == [
        'office = dp.connect("https://office", token="...")',
        f'fit = office.release("{ID}")',
        "fit = office.glm('y ~ x', 'survey', family='poisson', subset='x > 1', eps=0.5, label='table 2')",
    ]
    assert 'dp_glm(office, "y ~ x", "survey", eps = 0.5, family = "poisson", subset = "x > 1"' in str(lines["r"])
    assert reports.code(web, REQUESTS[3])["r"] is None


def test_words_of_a_job() -> None:
    """An evaluation is of a model, by its label or its formula."""

    def job(request: Request) -> Job:
        return Job(ID, "Ada", request, "key", "working", 0.0, 1.0, label=request.label)

    models = dict(zip((ID, "0" * 32), map(job, REQUESTS), strict=False))
    service: Any = SimpleNamespace(named=lambda ids: {id: models[id] for id in ids if id in models})
    words = [pages.what(service, job(request)) for request in REQUESTS[2:6]]
    assert words == ["y ~ x", "Evaluation of table 2", "y ~ x", "y, bs(x, df=4)"]
    del models[ID]
    assert pages.what(service, job(REQUESTS[3])) == "Evaluation"


NASTY = (
    *("", "glm", "x" * 9000, "<script>alert(1)</script>", "../../office.toml", "\x00", "é\u202e", "%s{{7*7}}", "none"),
    *("y ~ " + "(" * 400, "y ~ x.__class__", "1e999", "-1", "[" * 5000, '{"verb": "glm", "arguments": {}, "label": 5}'),
    json.dumps({"verb": "glm", "arguments": {"formula": ["y"], "eps": {}}, "label": None}),
    json.dumps({"verb": "evaluate", "arguments": {"fit": 7, "eps": 1}, "label": "\x1b[31m"}),
)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:subprocess:ResourceWarning")
def test_no_form_breaks_a_page_or_is_repeated_as_markup(opened: Callable[..., Any]) -> None:
    """A hostile analyst, and a hostile page in the keeper's browser, with every field of every address."""
    testing = pytest.importorskip("starlette.testclient")
    from dpstats.office.api import create_app

    service, rng, endless = opened(), random.Random(5), Limits(calls=(1e6, 1e6))
    names = (
        "verb",
        "formula",
        "eps",
        "delta",
        "fit",
        "columns",
        "options",
        "label",
        "request",
        "key",
        "name",
        "shared",
    )
    for keeper, token in ((False, service.add_analyst("Ada")), (True, service.new_keeper_token())):
        headers = {"Authorization": f"Bearer {token}"}
        client = testing.TestClient(
            create_app(service, keeper=keeper, limits=endless), base_url="http://127.0.0.1", headers=headers
        )
        for method, path, _ in (*pages.BOTH, *(pages.KEEPER if keeper else pages.ANALYST)):
            for _ in range(8):
                sent = {name: rng.choice(NASTY) for name in rng.sample(names, 6)}
                parts = {
                    "data": rng.choice(("survey", "none", "x" * 99)),
                    "id": rng.choice((ID, "x", "0")),
                    "kind": "csv",
                }
                place = path.format(**parts, name=rng.choice(("office.css", "office.toml", "x")))
                query = {"q": rng.choice(NASTY[:9]), "from": rng.choice(NASTY[:9])} if method == "GET" else None
                body = urlencode(sent).encode() if method == "POST" else None
                answer = client.request(method, place, params=query, content=body, follow_redirects=False)
                assert answer.status_code < 500, (method, place, sent)
                assert "<script>alert" not in answer.text
                assert "49" not in re.findall(r"%s(\d+)", answer.text)
    assert not service.jobs("Ada")


def test_a_page_and_its_addresses_show_a_mismatch(opened: Callable[..., Any]) -> None:
    testing = pytest.importorskip("starlette.testclient")
    from dpstats.office.api import create_app

    service = opened()
    path = service.office.path.parent / "rows.csv"
    pd.read_csv(path).assign(x=50.0).to_csv(path, index=False)
    headers = {"Authorization": f"Bearer {service.add_analyst('Ada')}"}
    client = testing.TestClient(create_app(service, keeper=False), base_url="http://127.0.0.1", headers=headers)
    job = service.submit("Ada", Request("survey", "glm", {"formula": "y ~ x", "eps": 2.0}), "a")
    assert finished(service, "Ada", job.id).state == "released"
    page = client.get(f"/releases/{job.id}").text
    assert "No fit was made." in page
    assert "the charge stands" in page
    table = client.get(f"/v1/releases/{job.id}/table")
    assert (table.status_code, table.json()["error"]["type"]) == (422, "MismatchError")
    for part in ("picture/coefficients", "export/json", "export/csv"):
        assert client.get(f"/releases/{job.id}/{part}").status_code == 422
    assert client.get(f"/v1/releases/{job.id}").json()["result"]["kind"] == "Mismatch"
