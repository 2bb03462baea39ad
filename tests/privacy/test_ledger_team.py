"""A ledger that several people spend from: who, what for, how much each may, and of which data set."""

from __future__ import annotations

import html.parser
import json
import math
import multiprocessing
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpstats.cli import main
from dpstats.domain import Domain, Range
from dpstats.errors import ArgumentError, BudgetExceeded, DPStatsError, LedgerError
from dpstats.ledger import Ledger, as_ledger
from dpstats.ledger.reader import schema_hash
from dpstats.privacy.guarantee import Guarantee

DOMAIN = Domain(age=(17, 90), sex=["F", "M"], income=bool)
SMALL = Guarantee(0.1)


@pytest.fixture
def ledger(path: Path | str) -> Ledger:
    return Ledger(path, "adult", 1.0, 1e-5)


def test_entries_say_who_charges_and_why(ledger: Ledger) -> None:
    ada = ledger.signed("Ada", purpose="thesis")
    ada.charge(SMALL, label="first")
    ada.charge(SMALL, label="second", purpose="talk")
    ada.signed(label="all mine").charge(SMALL, label="third")
    ledger.partition("sex", ["F", "M"])["F"].signed("Bob").charge(SMALL, label="fourth")
    ada.partition("sex", ["F", "M"])["M"].charge(SMALL, label="fifth")
    ledger.charge(SMALL, label="sixth")
    table = ledger.entries()
    assert table["analyst"].tolist() == ["Ada", "Ada", "Ada", "Bob", "Ada", None]
    assert table["purpose"].tolist() == ["thesis", "talk", "thesis", None, "thesis", None]
    assert table["label"].tolist() == ["first", "second", "all mine", "fourth", "fifth", "sixth"]


@pytest.mark.parametrize("given", [{"analyst": 3}, {"analyst": " Ada"}, {"analyst": ""}, {"purpose": 1}, {"label": 2}])
def test_a_signature_is_text(ledger: Ledger, given: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError, match=next(iter(given))):
        ledger.signed(**given)


def test_a_quota_is_all_that_an_analyst_may_spend(ledger: Ledger) -> None:
    ledger.set_quota("Ada", 0.25)
    ada = ledger.signed("Ada")
    assert ada.remaining == (0.25, 0.0)
    assert ledger.remaining == (1.0, 1e-5)
    ada.charge(SMALL, label="a").refund()
    for _ in range(2):
        ada.charge(SMALL, label="a")
    with pytest.raises(BudgetExceeded, match=r"quota of analyst 'Ada' \(eps=0\.25, delta=0\): at most eps=0\.05"):
        ada.charge(SMALL, label="one too many")
    with pytest.raises(
        BudgetExceeded, match=r"^charge 'large' of eps=2, delta=0 \(add_remove\) exceeds what remains of"
    ):
        ledger.charge(Guarantee(2.0), label="large")
    with pytest.raises(BudgetExceeded, match=r"\(this charge was not made, and nothing was released for it\)$"):
        ledger.charge(Guarantee(2.0), label="the rest of a fit whose counts are charged")
    with pytest.raises(BudgetExceeded, match=r"\(nothing was charged or released\)$"):
        ledger.check_charges([Guarantee(2.0)])
    with pytest.raises(BudgetExceeded, match="delta"):
        ada.charge(Guarantee(0.01, 1e-9), label="without a quota of delta")
    ada.charge(Guarantee(0.05), label="the rest")
    assert len(ledger.entries()) == 4  # refunded ones stay on record, refused ones leave none
    ledger.signed("Bob").charge(Guarantee(0.5), label="others have none")
    assert ledger.remaining.eps == 0.25


@pytest.mark.parametrize(
    ("quota", "eps", "said"),
    [
        (0.25, 0.75, "remains of 'd' and of the quota of analyst 'Ada' (eps=0.25, delta=0): at most eps=0.25"),
        (0.25, 0.375, "remains of the quota of analyst 'Ada' (eps=0.25, delta=0): at most eps=0.25"),
        (0.625, 0.6, "remains of 'd': at most eps=0.5"),
        (0.625, 0.75, "remains of 'd' and of the quota of analyst 'Ada' (eps=0.625, delta=0): at most eps=0.5"),
    ],
)
def test_what_a_refusal_offers_is_granted(path: Path | str, quota: float, eps: float, said: str) -> None:
    """The least of what the whole budget and the quota leave, whichever was exceeded."""
    ledger = Ledger(path, dataset="d", eps=1.0)
    ledger.charge(Guarantee(0.5), label="others")
    ledger.set_quota("Ada", quota)
    ada = ledger.signed("Ada")
    with pytest.raises(BudgetExceeded, match=re.escape(said)) as refused:
        ada.charge(Guarantee(eps), label="too much")
    (most,) = re.findall(r"at most eps=([\d.]+)", str(refused.value))
    ada.charge(Guarantee(float(most)), label="what was offered")


def charge_while_it_lasts(path: Path, taken: Any) -> None:
    """Thirty charges of 0.02, each of which may be refused."""
    with Ledger.open(path) as ledger:
        for _ in range(30):
            try:
                ledger.signed("Ada").charge(Guarantee(0.02), label="a")
            except BudgetExceeded:
                continue
            taken.put(1)


@pytest.mark.slow
def test_processes_cannot_overdraw_a_quota_together(ledger: Ledger) -> None:
    """Three processes ask for 1.8 of a quota of 0.5: exactly 25 charges are made."""
    ledger.set_quota("Ada", 0.5)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["dpstats.ledger"])
    taken = context.Queue()
    workers = [context.Process(target=charge_while_it_lasts, args=(ledger.path, taken)) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0] * 3
    assert len(ledger.entries()) == 25
    assert sum(taken.get(timeout=5) for _ in range(25)) == 25
    assert taken.empty()
    assert ledger.spending().loc["Ada", "eps"] == 0.5


def test_a_quota_for_everyone_else(ledger: Ledger) -> None:
    ledger.set_quota(None, 0.15)
    ledger.set_quota("Ada", 0.5)
    ledger.signed("Ada").charge(Guarantee(0.4), label="a")
    for analyst in ("Bob", "Cem", None):
        own = ledger.signed(analyst)
        own.charge(SMALL, label="a")
        with pytest.raises(BudgetExceeded, match="those who give no name" if analyst is None else analyst):
            own.charge(SMALL, label="b")


def test_a_refusal_says_whose_quota_it_is_and_when_nothing_is_left(ledger: Ledger) -> None:
    ledger.set_quota("Kim", eps=0.2)
    ledger.set_quota(None, eps=0.0)
    for name, said in (
        ("Kimm", "'Kimm' has no quota of its own: did you mean 'Kim'?"),
        ("Zoe", "the quota of analyst 'Zoe' (eps=0, delta=0): nothing is left ("),
    ):
        with pytest.raises(BudgetExceeded, match="nothing is left") as caught:
            ledger.signed(name).charge(SMALL, label="fit")
        assert said in str(caught.value)
    with pytest.raises(BudgetExceeded, match=r"nothing is left; sign with analyst= or ledger.signed"):
        ledger.charge(SMALL, label="fit")
    ledger.signed("Kim").charge(SMALL, label="fit")
    with pytest.raises(BudgetExceeded, match=r"at most eps=0.1"):
        ledger.signed("Kim").charge(Guarantee(0.15), label="fit")


def test_the_latest_quota_counts_even_below_what_is_spent(ledger: Ledger) -> None:
    ada = ledger.signed("Ada")
    ada.charge(Guarantee(0.3), label="a")
    ledger.set_quota("Ada", 0.1)
    assert ada.remaining == (0.0, 0.0)
    with pytest.raises(BudgetExceeded):
        ada.charge(Guarantee(0.01), label="b")
    ledger.set_quota("Ada", 0.4)
    assert ada.remaining.eps == pytest.approx(0.1)
    ledger.set_quota("Ada", 0)
    with pytest.raises(BudgetExceeded):
        ada.charge(Guarantee(0.01), label="b")


def test_no_quota_lifts_the_total(ledger: Ledger) -> None:
    ledger.set_quota("Ada", 5.0)
    ada = ledger.signed("Ada")
    assert ada.remaining.eps == 1.0
    with pytest.raises(BudgetExceeded, match="remains of 'adult'"):
        ada.charge(Guarantee(1.1), label="a")


def test_parts_compose_in_parallel_for_a_quota_too(ledger: Ledger) -> None:
    ledger.set_quota("Ada", 0.3)
    parts = ledger.signed("Ada").partition("sex", ["F", "M"])
    parts["F"].charge(Guarantee(0.3), label="a")
    parts["M"].charge(Guarantee(0.3), label="b")
    with pytest.raises(BudgetExceeded, match="Ada"):
        parts["M"].charge(Guarantee(0.01), label="c")
    assert ledger.spending().loc["Ada", "eps"] == 0.3


def test_a_quota_under_zcdp(path: Path | str) -> None:
    ledger = Ledger(path, "d", 2.0, 1e-6, accountant="zcdp")
    with pytest.raises(ArgumentError, match="delta"):
        ledger.set_quota("Ada", 0.5)
    ledger.set_quota("Ada", 0.5, 1e-7)
    ada = ledger.signed("Ada")
    assert 0 < ada.remaining.eps < 0.5
    assert ada.remaining_rho is not None
    assert ledger.remaining_rho is not None
    assert ada.remaining_rho < ledger.remaining_rho
    ada.charge(Guarantee(ada.remaining.eps), label="a")
    # Which shows why the quota does not suffice for an eps below its own.
    rho = r"of analyst 'Ada' \(eps=0.5, delta=1e-07, converted at this delta to rho=0\.00514\d*\): at most"
    with pytest.raises(BudgetExceeded, match=rho):
        ada.charge(Guarantee(0.01), label="b")


charges = st.lists(
    st.tuples(st.sampled_from(["Ada", "Bob", None]), st.sampled_from(["F", "M", None]), st.integers(1, 30)),
    max_size=12,
)


@pytest.mark.slow
@settings(max_examples=25)
@given(charges)
def test_quotas_against_a_count_by_hand(tmp_path_factory: pytest.TempPathFactory, steps: list[Any]) -> None:
    """In hundredths of eps: a charge is taken exactly if total and quota hold it, parts in parallel."""
    ledger = Ledger(tmp_path_factory.mktemp("hand") / "budget.db", "d", 1.0)
    limits = {"Ada": 40, "Bob": 60}
    for name, limit in limits.items():
        ledger.set_quota(name, limit / 100)
    spent: dict[str | None, dict[str | None, int]] = {}

    def whole(*names: str | None) -> int:
        by_part = {part: sum(spent.get(name, {}).get(part, 0) for name in names) for part in ("F", "M", None)}
        return by_part[None] + max(by_part["F"], by_part["M"])

    for analyst, part, amount in steps:
        own = spent.setdefault(analyst, {})
        own[part] = own.get(part, 0) + amount
        fits = whole("Ada", "Bob", None) <= 100 and whole(analyst) <= limits.get(analyst or "", 100)
        account = ledger.signed(analyst)
        payer = account if part is None else account.partition("sex", ["F", "M"])[part]
        if fits:
            payer.charge(Guarantee(amount / 100), label="a")
        else:
            own[part] -= amount
            with pytest.raises(BudgetExceeded):
                payer.charge(Guarantee(amount / 100), label="a")
    for name, row in ledger.spending().iterrows():
        assert row["eps"] == pytest.approx(whole(str(name) or None) / 100)


def test_spending_by_analyst(ledger: Ledger) -> None:
    ledger.set_quota("Ada", 0.5, 1e-6)
    ledger.signed("Ada").charge(Guarantee(0.2, 1e-7), label="a")
    ledger.charge(SMALL, label="b").refund()
    table = ledger.spending()
    assert table.index.tolist() == ["Ada", ""]
    assert table["entries"].tolist() == [1, 0]
    assert table.loc["Ada", ["eps", "delta", "quota_eps", "quota_delta"]].tolist() == [0.2, 1e-7, 0.5, 1e-6]
    assert table.loc["Ada", "remaining_eps"] == pytest.approx(0.3)
    assert math.isnan(table.loc["", "quota_eps"])


def test_what_is_left_for_each_stands_in_the_table_and_in_the_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """For whoever gives no name, too, where a quota limits all that have none of their own."""
    ledger = Ledger(tmp_path / "budget.db", "adult", 4.0)
    ledger.set_quota("Ada", 1.5)
    ledger.set_quota(None, 0)
    ledger.signed("Ada").charge(Guarantee(1.0), label="a")
    assert ledger.spending()["remaining_eps"].to_dict() == {"Ada": 0.5, "": 0.0}
    lines = [line.split() for line in ledger.report().splitlines()]
    assert ["Ada", "1", "1", "1.5", "0.5"] in lines
    assert ["(no", "name)", "0", "0", "0", "0"] in lines
    for asked in (ledger, ledger.signed("Ada")):
        assert asked.total_remaining == (3.0, 0.0)
    assert ledger.remaining == (0.0, 0.0)
    assert main(["ledger", "show", str(tmp_path / "budget.db"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["remaining"]["eps"] == 3.0


@pytest.mark.parametrize("eps", [-0.1, math.nan, math.inf, "1", True])
def test_bad_quotas(ledger: Ledger, eps: Any) -> None:
    with pytest.raises(ArgumentError, match="eps"):
        ledger.set_quota("Ada", eps)
    assert ledger.spending().empty


def test_the_domain_of_the_data_set_is_kept_for_good(tmp_path: Path) -> None:
    path = tmp_path / "budget.db"
    with Ledger(path, "adult", 1.0, domain=DOMAIN) as ledger:
        assert ledger.domain == DOMAIN
    with Ledger(path, "adult", 1.0) as ledger:
        assert ledger.domain == DOMAIN
    Ledger(path, "adult", 1.0, domain=Domain(income=bool, sex=["F", "M"], age=(17, 90))).close()
    with pytest.raises(LedgerError, match=r"'age': \(17, 90\) there, \(0, 90\) here"):
        Ledger(path, "adult", 1.0, domain={**DOMAIN, "age": (0, 90)})
    with pytest.raises(LedgerError, match=r"'sex': .* there, nothing here"):
        Ledger(path, "adult", 1.0, domain={"age": (17, 90), "income": bool})


def test_a_ledger_without_a_domain_can_be_given_one(ledger: Ledger) -> None:
    ledger.charge(SMALL, label="before", domain=Domain(other=(0, 1)), columns=["other"])
    Ledger(ledger.path, "adult", 1.0, 1e-5, domain=DOMAIN).close()
    assert ledger.domain == DOMAIN
    with pytest.raises(LedgerError, match="'other'"):
        ledger.charge(SMALL, label="after", domain=Domain(other=(0, 1)), columns=["other"])


BAD, GOOD = Domain(age=(17, 90), region=["north", "south"]), Domain(age=(17, 90), region=["North", "South"])


def test_the_keeper_corrects_the_domain_and_nothing_spent_is_forgotten(path: Path | str) -> None:
    ledger = Ledger(path, "adult", 1.0, domain=BAD)
    ledger.set_quota("Ada", 0.5)
    ada = ledger.signed("Ada", key="one piece of work")
    number = ada.charge(SMALL, label="a", domain=BAD, columns=["region"]).number
    part = ledger.partition("region", ["North", "South"])["North"]
    part.charge(SMALL, label="in a part")
    before = ledger.entries()
    ledger.signed("Kim", purpose="the codebook has capitals").set_domain(GOOD)
    ledger.set_domain(GOOD)  # no change, no entry
    after = ledger.entries()
    pd.testing.assert_frame_equal(pd.DataFrame(after.head(2)), pd.DataFrame(before))
    (entry,) = after.tail(1).to_dict("records")
    assert (entry["eps"], entry["delta"], entry["label"]) == (0.0, 0.0, "Domain corrected")
    assert (entry["analyst"], entry["purpose"]) == ("Kim", "the codebook has capitals")
    assert entry["note"] == "region: {'levels': ['north', 'south']} before, {'levels': ['North', 'South']} from now on"
    assert entry["domain_hash"] == schema_hash(GOOD)
    assert abs(entry["time"] - before["time"].max()) < pd.Timedelta("1min")
    assert ledger.domain == part.domain == Ledger.open(path).domain == GOOD  # opening it checks every balance
    assert (ledger.remaining.eps, ada.remaining.eps, part.remaining.eps) == (0.8, 0.4, 0.8)
    assert ledger.history()["eps"].tolist() == [0.1, 0.2, 0.2]
    with pytest.raises(
        LedgerError, match=r"\[north, south\], and as \[North, South\] .* \(ledger\.set_domain\(domain\)\)"
    ):
        ledger.charge(SMALL, label="as before", domain=BAD, columns=["region"])
    with pytest.raises(LedgerError, match=r"keeps a different Domain .* correct the Domain"):
        Ledger(path, "adult", 1.0, domain=BAD)
    Ledger(path, "adult", 1.0, domain=GOOD).close()
    # Work that a crash cut off before the correction has paid.
    again = ledger.signed("Ada", key="one piece of work").charge(SMALL, label="a", domain=GOOD, columns=["region"])
    assert again.number == number
    assert "Domain corrected" in ledger.report()
    assert "Domain corrected" in ledger.to_html()


def test_a_domain_may_come_after_the_first_charges_and_say_more_than_ends(ledger: Ledger) -> None:
    ledger.charge(SMALL, label="a")
    ledger.set_domain({"age": (17, 90)})
    ledger.set_domain({"age": Range(17, 90, outside="drop"), "sex": ["F", "M"]})
    assert ledger.domain == Domain(age=Range(17, 90, outside="drop"), sex=["F", "M"])
    table = ledger.entries()
    assert table["label"].tolist() == ["a", "Domain declared", "Domain corrected"]
    assert table["note"].tolist()[1:] == [
        "",
        "age: {'range': [17, 90]} before, {'range': [17, 90], 'outside': 'drop'} from now on; "
        "sex: nothing before, {'levels': ['F', 'M']} from now on",
    ]
    assert "from 17 to 90; outside drop" in ledger.to_html()


@pytest.mark.parametrize("given", [None, {}, 3, {"age": "17"}])
def test_no_domain_is_no_correction(path: Path | str, given: Any) -> None:
    ledger = Ledger(path, "adult", 1.0, domain=BAD)
    with pytest.raises(DPStatsError, match=r"age|domain"):
        ledger.set_domain(given)
    assert ledger.domain == BAD
    assert ledger.entries().empty


OTHER_DATA: list[tuple[dict[str, Any], list[str], str]] = [
    ({"wage": (0, 9)}, ["wage"], "'wage' is not in the Domain"),
    ({}, ["age", "wage"], "'wage' is not in the Domain"),
    ({"age": (17, 91)}, ["age"], r"\(17, 91\), and as \(17, 90\)"),
    ({"age": ["17", "18"]}, ["age"], r"\[17, 18\], and as \(17, 90\)"),
    ({"sex": ["M", "F"]}, ["sex"], r"\[M, F\], and as \[F, M\]"),
]


@pytest.mark.parametrize(("declared", "columns", "words"), OTHER_DATA, ids=[words for _, _, words in OTHER_DATA])
def test_another_data_set_is_refused(
    path: Path | str, declared: dict[str, Any], columns: list[str], words: str
) -> None:
    ledger = Ledger(path, "adult", 1.0, domain=DOMAIN)
    with pytest.raises(LedgerError, match=words):
        ledger.charge(SMALL, label="a", domain=Domain(declared), columns=columns)
    assert ledger.entries().empty


def test_some_columns_and_bought_ranges_agree_with_the_domain(path: Path | str) -> None:
    ledger = Ledger(path, "adult", 1.0, domain=DOMAIN)
    ledger.charge(SMALL, label="a", domain=Domain(sex=["F", "M"], unused=(0, 1)), columns=["age", "sex"])
    ledger.charge(SMALL, label="by hand, at the keeper's word")
    hashes = ledger.entries()["domain_hash"].tolist()
    assert hashes == [schema_hash(Domain(sex=["F", "M"])), None]


def test_declarations_that_mean_the_same_agree(path: Path | str) -> None:
    """Read from YAML, numbers may come as text, and whole ends of a range as floats."""
    ledger = Ledger(path, "d", 1.0, domain=Domain(age=(17, 90), kids=[0, 1, 2]))
    same = Domain(age=(17.0, 90.0), kids=["0", "1", "2"])
    ledger.charge(SMALL, label="a", domain=same, columns=["age", "kids"])
    Ledger(path, "d", 1.0, domain=same).close()
    with pytest.raises(LedgerError, match="'kids'"):
        ledger.charge(SMALL, label="a", domain=Domain(kids=["0", "2", "1"]), columns=["kids"])


@pytest.mark.parametrize("more", [{"outside": "drop"}, {"inner": (20, 70)}, {"typical": (39, 14)}])
def test_which_rows_a_fit_uses_is_its_own_choice_but_no_keepers_word_is_ignored(
    path: Path | str, more: dict[str, Any]
) -> None:
    """A Domain with `outside` at a second opening was taken for the stored one, and calls went on without it."""
    ledger, other, name = Ledger(path, "d", 1.0, domain={"age": (17, 90)}), Range(17, 90, **more), next(iter(more))
    ledger.charge(SMALL, label="a bought interval", domain=Domain(age=other), columns=["age"])
    with pytest.raises(LedgerError, match=rf"\(17, 90\) there, Range\(low=17, high=90, {name}=.*set_domain"):
        Ledger(path, "d", 1.0, domain={"age": other})
    ledger.set_domain({"age": other})
    Ledger(path, "d", 1.0, domain={"age": Range(17.0, 90.0, **more)}).close()


def test_a_hash_follows_declarations_and_not_their_order() -> None:
    assert schema_hash(Domain(a=(0, 1), b=["x", "y"])) == schema_hash(Domain(b=["x", "y"], a=(0, 1)))
    assert schema_hash(Domain(b=["x", "y"])) != schema_hash(Domain(b=["y", "x"]))


def test_a_path_stands_for_its_ledger(ledger: Ledger) -> None:
    for path in (ledger.path, str(ledger.path)):
        found = as_ledger(path)
        assert isinstance(found, Ledger)
        found.charge(SMALL, label="a")
        found.close()
    assert len(ledger.entries()) == 2
    assert as_ledger(ledger) is ledger
    assert as_ledger(None) is None


def test_a_path_never_makes_a_ledger(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match=r"create it: dp\.Ledger"):
        as_ledger(tmp_path / "none.db")
    assert not list(tmp_path.iterdir())
    with pytest.raises(ArgumentError, match=r"got \{\}"):
        as_ledger({})  # type: ignore[arg-type]


class Page(html.parser.HTMLParser):
    """Tags as they open and close, and the text between them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def test_the_page_shows_the_same_as_the_text_and_is_whole(path: Path | str) -> None:
    ledger = Ledger(path, "adult", 1.0, domain=DOMAIN)
    ledger.set_quota("Ada", 0.5)
    ledger.signed("Ada", purpose="thesis").charge(SMALL, label="first", formula="y ~ x")
    ledger.charge(SMALL, label="second").refund()
    page = Page(ledger.to_html())
    assert not page.open
    words = " ".join(page.words)
    for said in ("Privacy budget of adult", "Ada", "for thesis", "y ~ x", "refunded", "from 17 to 90", "0.9"):
        assert said in words
    text = ledger.report()
    for said in ("Ada", "for thesis", "quota eps", "the 3 columns of its"):
        assert said in text
    assert max(map(len, text.splitlines())) <= 80


def test_the_page_is_written_to_a_path(ledger: Ledger, tmp_path: Path) -> None:
    page = ledger.to_html(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text("utf-8") == page == ledger.to_html()
    assert "utf-8" in page
    with pytest.raises(ArgumentError, match="path"):
        ledger.to_html(tmp_path / "missing" / "page.html")


def test_no_word_of_an_entry_becomes_markup(path: Path | str) -> None:
    nasty = "<script>alert('x')</script>&\"\x1b[31m"
    ledger = Ledger(path, nasty, 1.0, domain={nasty: [nasty, "b"], "x": (0, 1)})
    ledger.set_quota(nasty.strip(), 0.5)
    ledger.signed(nasty, purpose=nasty).charge(SMALL, label=nasty, formula=nasty, method=nasty)
    page = Page(ledger.to_html())
    assert not page.open
    assert "script" not in page.tags
    assert "\x1b" not in ledger.to_html() + ledger.report()


def test_an_empty_ledger_has_a_page(ledger: Ledger) -> None:
    assert "Nothing yet" in ledger.to_html()
    part = ledger.partition("sex", ["F", "M"])["F"]
    assert "part sex=" in " ".join(Page(part.to_html()).words)


def test_a_signed_ledger_says_whose_it_is(path: Path | str) -> None:
    ledger = Ledger(path, dataset="d", eps=1.0)
    assert repr(ledger.signed("Ada")) == repr(ledger)[:-1] + ", analyst='Ada')"
    assert "analyst" not in repr(ledger)


def test_a_quota_of_a_name_that_differs_in_case_alone_is_refused(path: Path | str) -> None:
    ledger = Ledger(path, dataset="d", eps=1.0)
    ledger.set_quota("Ada", 0.5)
    ledger.set_quota("Ada", 0.75)
    with pytest.raises(ArgumentError, match="'ADA' differs only in case from 'Ada', whom the ledger knows"):
        ledger.set_quota("ADA", 0.5)
    ledger.set_quota(None, 0)
    assert ledger.spending().loc["Ada", "quota_eps"] == 0.75


@pytest.mark.parametrize(
    ("delta", "said"), [(0.0, "at most eps=0.5; lower eps (this charge"), (1e-6, "for a pure charge")]
)
def test_a_refusal_speaks_of_delta_where_there_is_one(path: Path | str, delta: float, said: str) -> None:
    ledger = Ledger(path, dataset="d", eps=0.5, delta=delta)
    with pytest.raises(BudgetExceeded, match=re.escape(said)):
        ledger.charge(Guarantee(0.75), label="too much")
    if not delta:
        with pytest.raises(BudgetExceeded, match="the ledger has no delta: pass delta=0, or make"):
            ledger.charge(Guarantee(0.25, 1e-6), label="with a delta")
        assert ledger.remaining.eps == 0.5
