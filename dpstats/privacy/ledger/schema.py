"""The ledger's file format: one SQLite database whose own rules keep its books straight."""

from __future__ import annotations

APPLICATION_ID = 0x64704C67  # "dpLg", in the file's header
SCHEMA_VERSION = 3

ROOT = 1  # the account of the whole data set

# What version 3 added: who spends and why, the hash of the declared columns, quotas, and the data set's own Domain.
_NAMED = "analyst TEXT, purpose TEXT, domain_hash TEXT"
_TEAM = """CREATE TABLE quota (
    id INTEGER PRIMARY KEY, analyst TEXT, eps REAL NOT NULL, delta REAL NOT NULL,
    limit_eps INTEGER NOT NULL, limit_delta INTEGER NOT NULL, limit_rho INTEGER NOT NULL, time TEXT NOT NULL
);
CREATE TABLE codebook (one INTEGER PRIMARY KEY CHECK (one = 1), domain TEXT NOT NULL, hash TEXT NOT NULL,
    time TEXT NOT NULL);"""
_ENTRY_IS_FIXED = """CREATE TRIGGER entry_is_fixed BEFORE UPDATE OF id, account, cost_eps, cost_delta, cost_rho, eps,
    delta, label, formula, method, adjacency, basis, version, plan_hash, time, note, analyst, purpose, domain_hash
    ON entry BEGIN
    SELECT RAISE(ABORT, 'entries are never rewritten');
END;"""
_TEAM_STAYS = "\n".join(
    f"CREATE TRIGGER {table}_{name} BEFORE {event} ON {table} BEGIN SELECT RAISE(ABORT, '{table} {what}'); END;"
    for table in ("quota", "codebook")
    for name, event, what in (
        ("is_fixed", "UPDATE", "rows are never rewritten"),
        ("stays", "DELETE", "rows are never deleted"),
    )
)

# Amounts are integers on the grid of docs/proofs/composition, section 1. Balances are kept by triggers, in the
# transaction of the entry itself; nothing is ever deleted, and an entry's state is all that may change.
CREATE = f"""
CREATE TABLE ledger (
    one INTEGER PRIMARY KEY CHECK (one = 1), identity TEXT NOT NULL, dataset TEXT NOT NULL,
    eps REAL NOT NULL, delta REAL NOT NULL, adjacency TEXT NOT NULL, unit TEXT, accountant TEXT NOT NULL,
    limit_eps INTEGER NOT NULL, limit_delta INTEGER NOT NULL, limit_rho INTEGER NOT NULL,
    version TEXT NOT NULL, created TEXT NOT NULL
);
CREATE TABLE account (
    id INTEGER PRIMARY KEY, parent INTEGER REFERENCES account, rule TEXT, part TEXT,
    spent_eps INTEGER NOT NULL DEFAULT 0 CHECK (spent_eps >= 0),
    spent_delta INTEGER NOT NULL DEFAULT 0 CHECK (spent_delta >= 0),
    spent_rho INTEGER NOT NULL DEFAULT 0 CHECK (spent_rho >= 0),
    UNIQUE (parent, rule, part), CHECK ((id = {ROOT}) = (parent IS NULL))
);
CREATE TABLE entry (
    id INTEGER PRIMARY KEY, account INTEGER NOT NULL REFERENCES account,
    cost_eps INTEGER NOT NULL CHECK (cost_eps >= 0), cost_delta INTEGER NOT NULL CHECK (cost_delta >= 0),
    cost_rho INTEGER NOT NULL CHECK (cost_rho >= 0),
    eps REAL NOT NULL, delta REAL NOT NULL, label TEXT NOT NULL, formula TEXT, method TEXT, adjacency TEXT NOT NULL,
    basis TEXT NOT NULL, version TEXT NOT NULL, plan_hash TEXT, time TEXT NOT NULL, note TEXT NOT NULL,
    state TEXT NOT NULL DEFAULT 'charged' CHECK (state IN ('charged', 'read', 'refunded')),
    {_NAMED}
);
CREATE INDEX entry_time ON entry (time);
{_TEAM}
INSERT INTO account (id) VALUES ({ROOT});

CREATE TRIGGER entry_debits AFTER INSERT ON entry BEGIN
    UPDATE account SET spent_eps = spent_eps + NEW.cost_eps, spent_delta = spent_delta + NEW.cost_delta,
        spent_rho = spent_rho + NEW.cost_rho WHERE id = NEW.account;
END;
CREATE TRIGGER entry_refunds AFTER UPDATE OF state ON entry WHEN NEW.state = 'refunded' BEGIN
    UPDATE account SET spent_eps = spent_eps - NEW.cost_eps, spent_delta = spent_delta - NEW.cost_delta,
        spent_rho = spent_rho - NEW.cost_rho WHERE id = NEW.account;
END;
CREATE TRIGGER entry_starts_charged BEFORE INSERT ON entry WHEN NEW.state <> 'charged' BEGIN
    SELECT RAISE(ABORT, 'an entry starts as charged');
END;
CREATE TRIGGER entry_moves_on BEFORE UPDATE OF state ON entry
WHEN OLD.state <> 'charged' OR NEW.state = 'charged' BEGIN
    SELECT RAISE(ABORT, 'an entry that was read or refunded is final');
END;
{_ENTRY_IS_FIXED}
CREATE TRIGGER entry_stays BEFORE DELETE ON entry BEGIN SELECT RAISE(ABORT, 'entries are never deleted'); END;
CREATE TRIGGER account_is_fixed BEFORE UPDATE OF id, parent, rule, part ON account BEGIN
    SELECT RAISE(ABORT, 'accounts are never rewritten');
END;
CREATE TRIGGER account_stays BEFORE DELETE ON account BEGIN SELECT RAISE(ABORT, 'accounts are never deleted'); END;
CREATE TRIGGER ledger_is_fixed BEFORE UPDATE ON ledger BEGIN SELECT RAISE(ABORT, 'totals are never rewritten'); END;
CREATE TRIGGER ledger_stays BEFORE DELETE ON ledger BEGIN SELECT RAISE(ABORT, 'totals are never deleted'); END;
{_TEAM_STAYS}

PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {SCHEMA_VERSION};
"""

_TO_2 = "ALTER TABLE ledger ADD COLUMN unit TEXT;"
_TO_3 = "\n".join(
    [
        *(f"ALTER TABLE entry ADD COLUMN {column};" for column in _NAMED.split(", ")),
        *(_TEAM, "DROP TRIGGER entry_is_fixed;", _ENTRY_IS_FIXED, _TEAM_STAYS),
    ]
)
UPGRADES: dict[int, tuple[str, ...]] = {1: (_TO_2, _TO_3), 2: (_TO_3,)}
"""By the version of an older file, what makes it one of this version: columns and tables are added, nothing is changed.

A file of version 1 has no unit, so that its charges are for rows; one of version 2 has no analysts and no Domain.
"""

# Accounts whose balance is not the sum of their entries: none, unless the file was tampered with or damaged.
UNBALANCED = """
SELECT COUNT(*) FROM account LEFT JOIN (
    SELECT account, SUM(cost_eps) AS eps, SUM(cost_delta) AS delta, SUM(cost_rho) AS rho
    FROM entry WHERE state <> 'refunded' GROUP BY account
) AS booked ON booked.account = account.id
WHERE spent_eps <> COALESCE(eps, 0) OR spent_delta <> COALESCE(delta, 0) OR spent_rho <> COALESCE(rho, 0)
"""
