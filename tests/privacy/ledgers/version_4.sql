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
    UNIQUE (parent, rule, part), CHECK ((id = 1) = (parent IS NULL))
);
CREATE TABLE entry (
    id INTEGER PRIMARY KEY, account INTEGER NOT NULL REFERENCES account,
    cost_eps INTEGER NOT NULL CHECK (cost_eps >= 0), cost_delta INTEGER NOT NULL CHECK (cost_delta >= 0),
    cost_rho INTEGER NOT NULL CHECK (cost_rho >= 0),
    eps REAL NOT NULL, delta REAL NOT NULL, label TEXT NOT NULL, formula TEXT, method TEXT, adjacency TEXT NOT NULL,
    basis TEXT NOT NULL, version TEXT NOT NULL, plan_hash TEXT, time TEXT NOT NULL, note TEXT NOT NULL,
    state TEXT NOT NULL DEFAULT 'charged' CHECK (state IN ('charged', 'read', 'refunded')),
    analyst TEXT, purpose TEXT, domain_hash TEXT, key TEXT
);
CREATE INDEX entry_time ON entry (time);
CREATE INDEX entry_key ON entry (key) WHERE key IS NOT NULL;
CREATE TABLE quota (
    id INTEGER PRIMARY KEY, analyst TEXT, eps REAL NOT NULL, delta REAL NOT NULL,
    limit_eps INTEGER NOT NULL, limit_delta INTEGER NOT NULL, limit_rho INTEGER NOT NULL, time TEXT NOT NULL
);
CREATE TABLE codebook (one INTEGER PRIMARY KEY CHECK (one = 1), domain TEXT NOT NULL, hash TEXT NOT NULL,
    time TEXT NOT NULL);

INSERT INTO account (id) VALUES (1);

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
CREATE TRIGGER entry_is_fixed BEFORE UPDATE OF id, account, cost_eps, cost_delta, cost_rho, eps,
    delta, label, formula, method, adjacency, basis, version, plan_hash, time, note, analyst, purpose, domain_hash,
    key
    ON entry BEGIN
    SELECT RAISE(ABORT, 'entries are never rewritten');
END;
CREATE TRIGGER entry_stays BEFORE DELETE ON entry BEGIN SELECT RAISE(ABORT, 'entries are never deleted'); END;
CREATE TRIGGER account_is_fixed BEFORE UPDATE OF id, parent, rule, part ON account BEGIN
    SELECT RAISE(ABORT, 'accounts are never rewritten');
END;
CREATE TRIGGER account_stays BEFORE DELETE ON account BEGIN SELECT RAISE(ABORT, 'accounts are never deleted'); END;
CREATE TRIGGER ledger_is_fixed BEFORE UPDATE ON ledger BEGIN SELECT RAISE(ABORT, 'totals are never rewritten'); END;
CREATE TRIGGER ledger_stays BEFORE DELETE ON ledger BEGIN SELECT RAISE(ABORT, 'totals are never deleted'); END;
CREATE TRIGGER quota_is_fixed BEFORE UPDATE ON quota BEGIN SELECT RAISE(ABORT, 'quota rows are never rewritten'); END;
CREATE TRIGGER quota_stays BEFORE DELETE ON quota BEGIN SELECT RAISE(ABORT, 'quota rows are never deleted'); END;
CREATE TRIGGER codebook_is_fixed BEFORE UPDATE ON codebook BEGIN SELECT RAISE(ABORT, 'codebook rows are never rewritten'); END;
CREATE TRIGGER codebook_stays BEFORE DELETE ON codebook BEGIN SELECT RAISE(ABORT, 'codebook rows are never deleted'); END;

PRAGMA application_id = 1685081191;
PRAGMA user_version = 4;
