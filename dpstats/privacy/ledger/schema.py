"""The ledger's file format: one SQLite database whose own rules keep its books straight."""

from __future__ import annotations

APPLICATION_ID = 0x64704C67  # "dpLg", in the file's header
SCHEMA_VERSION = 2
READABLE = (1, 2)
"""Versions that this one reads and writes: a file of version 1 has no unit, so that its charges are for rows."""

ROOT = 1  # the account of the whole data set

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
    state TEXT NOT NULL DEFAULT 'charged' CHECK (state IN ('charged', 'read', 'refunded'))
);
CREATE INDEX entry_time ON entry (time);
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
CREATE TRIGGER entry_is_fixed BEFORE UPDATE OF id, account, cost_eps, cost_delta, cost_rho, eps, delta, label, formula,
    method, adjacency, basis, version, plan_hash, time, note ON entry BEGIN
    SELECT RAISE(ABORT, 'entries are never rewritten');
END;
CREATE TRIGGER entry_stays BEFORE DELETE ON entry BEGIN SELECT RAISE(ABORT, 'entries are never deleted'); END;
CREATE TRIGGER account_is_fixed BEFORE UPDATE OF id, parent, rule, part ON account BEGIN
    SELECT RAISE(ABORT, 'accounts are never rewritten');
END;
CREATE TRIGGER account_stays BEFORE DELETE ON account BEGIN SELECT RAISE(ABORT, 'accounts are never deleted'); END;
CREATE TRIGGER ledger_is_fixed BEFORE UPDATE ON ledger BEGIN SELECT RAISE(ABORT, 'totals are never rewritten'); END;
CREATE TRIGGER ledger_stays BEFORE DELETE ON ledger BEGIN SELECT RAISE(ABORT, 'totals are never deleted'); END;

PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {SCHEMA_VERSION};
"""

# Accounts whose balance is not the sum of their entries: none, unless the file was tampered with or damaged.
UNBALANCED = """
SELECT COUNT(*) FROM account LEFT JOIN (
    SELECT account, SUM(cost_eps) AS eps, SUM(cost_delta) AS delta, SUM(cost_rho) AS rho
    FROM entry WHERE state <> 'refunded' GROUP BY account
) AS booked ON booked.account = account.id
WHERE spent_eps <> COALESCE(eps, 0) OR spent_delta <> COALESCE(delta, 0) OR spent_rho <> COALESCE(rho, 0)
"""
