CREATE TABLE counters (
    workspace varchar(200) NOT NULL,
    id bigint GENERATED ALWAYS AS IDENTITY NOT NULL,
    name varchar(100) NOT NULL,
    change bigint NOT NULL,
    CONSTRAINT counters_pkey PRIMARY KEY (workspace, id)
);

ALTER TABLE counters ENABLE ROW LEVEL SECURITY;

ALTER TABLE counters FORCE ROW LEVEL SECURITY;

CREATE POLICY of_workspace ON counters
    USING (workspace = current_setting('hardwon.workspace', true) OR (coalesce(current_setting('hardwon.workspace', true), '') = '' AND current_user <> 'hardwon_app'))
    WITH CHECK (workspace = current_setting('hardwon.workspace', true) OR (coalesce(current_setting('hardwon.workspace', true), '') = '' AND current_user <> 'hardwon_app'));

DO $$ BEGIN
    -- the release before, which may still run, grants what it knows of
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'hardwon_app') THEN
        GRANT SELECT, INSERT, UPDATE, DELETE ON counters TO hardwon_app;
    END IF;
    END $$;

ALTER TABLE workspaces ADD COLUMN profile_rules integer, ADD COLUMN profiled_until timestamptz;

CREATE INDEX ix_knowledge_staging_decided ON knowledge_staging (workspace, pattern_id)
    WHERE status = 'staged' AND pattern_id IS NOT NULL;

CREATE INDEX ix_points_page ON points (workspace, id);

CREATE INDEX ix_checkpoints_finished ON checkpoints (workspace, finished_at);

CREATE INDEX ix_contexts_project ON contexts (workspace, project_id, created_at DESC, id);

CREATE INDEX ix_contexts_reason ON contexts (workspace, reason, created_at DESC, id);

CREATE INDEX ix_outcomes_recorded ON outcomes (workspace, recorded_at DESC, id) WHERE NOT low_trust;

CREATE INDEX ix_outcomes_project ON outcomes (workspace, project_id);

CREATE INDEX ix_records_silent ON records (workspace, recorded_at DESC) WHERE entry_id IS NULL AND arm_key = '';

CREATE FUNCTION count_knowledge_staging() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF TG_OP = 'INSERT' THEN
            INSERT INTO counters (workspace, name, change)
            SELECT workspace, 'entries.' || status, sum(change)
            FROM (SELECT workspace, status, 1 AS change FROM added) AS changed
            WHERE true
            GROUP BY 1, 2 HAVING sum(change) <> 0;
        ELSIF TG_OP = 'DELETE' THEN
            INSERT INTO counters (workspace, name, change)
            SELECT workspace, 'entries.' || status, sum(change)
            FROM (SELECT workspace, status, -1 AS change FROM removed) AS changed
            WHERE true
            GROUP BY 1, 2 HAVING sum(change) <> 0;
        ELSE
            INSERT INTO counters (workspace, name, change)
            SELECT workspace, 'entries.' || status, sum(change)
            FROM (SELECT workspace, status, 1 AS change FROM added UNION ALL SELECT workspace, status, -1 FROM removed) AS changed
            WHERE true
            GROUP BY 1, 2 HAVING sum(change) <> 0;
        END IF;
        RETURN NULL;
    END $$;

CREATE TRIGGER count_knowledge_staging_insert AFTER INSERT ON knowledge_staging
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION count_knowledge_staging();

CREATE TRIGGER count_knowledge_staging_delete AFTER DELETE ON knowledge_staging
    REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION count_knowledge_staging();

CREATE TRIGGER count_knowledge_staging_update AFTER UPDATE ON knowledge_staging
    REFERENCING OLD TABLE AS removed NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION count_knowledge_staging();

CREATE FUNCTION count_patterns() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF TG_OP = 'INSERT' THEN
            INSERT INTO counters (workspace, name, change)
            SELECT workspace, 'patterns', sum(change)
            FROM (SELECT workspace, success_count, 1 AS change FROM added) AS changed
            WHERE success_count > 0
            GROUP BY 1, 2 HAVING sum(change) <> 0;
        ELSIF TG_OP = 'DELETE' THEN
            INSERT INTO counters (workspace, name, change)
            SELECT workspace, 'patterns', sum(change)
            FROM (SELECT workspace, success_count, -1 AS change FROM removed) AS changed
            WHERE success_count > 0
            GROUP BY 1, 2 HAVING sum(change) <> 0;
        ELSE
            INSERT INTO counters (workspace, name, change)
            SELECT workspace, 'patterns', sum(change)
            FROM (SELECT workspace, success_count, 1 AS change FROM added UNION ALL SELECT workspace, success_count, -1 FROM removed) AS changed
            WHERE success_count > 0
            GROUP BY 1, 2 HAVING sum(change) <> 0;
        END IF;
        RETURN NULL;
    END $$;

CREATE TRIGGER count_patterns_insert AFTER INSERT ON patterns
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION count_patterns();

CREATE TRIGGER count_patterns_delete AFTER DELETE ON patterns
    REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION count_patterns();

CREATE TRIGGER count_patterns_update AFTER UPDATE ON patterns
    REFERENCING OLD TABLE AS removed NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION count_patterns();

CREATE FUNCTION count_points() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF TG_OP = 'INSERT' THEN
            INSERT INTO counters (workspace, name, change)
            SELECT workspace, 'points', sum(change)
            FROM (SELECT workspace, look_at, 1 AS change FROM added) AS changed
            WHERE look_at IS NULL
            GROUP BY 1, 2 HAVING sum(change) <> 0;
        ELSIF TG_OP = 'DELETE' THEN
            INSERT INTO counters (workspace, name, change)
            SELECT workspace, 'points', sum(change)
            FROM (SELECT workspace, look_at, -1 AS change FROM removed) AS changed
            WHERE look_at IS NULL
            GROUP BY 1, 2 HAVING sum(change) <> 0;
        ELSE
            INSERT INTO counters (workspace, name, change)
            SELECT workspace, 'points', sum(change)
            FROM (SELECT workspace, look_at, 1 AS change FROM added UNION ALL SELECT workspace, look_at, -1 FROM removed) AS changed
            WHERE look_at IS NULL
            GROUP BY 1, 2 HAVING sum(change) <> 0;
        END IF;
        RETURN NULL;
    END $$;

CREATE TRIGGER count_points_insert AFTER INSERT ON points
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION count_points();

CREATE TRIGGER count_points_delete AFTER DELETE ON points
    REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION count_points();

CREATE TRIGGER count_points_update AFTER UPDATE ON points
    REFERENCING OLD TABLE AS removed NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION count_points();

CREATE FUNCTION count_checkpoints() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF TG_OP = 'INSERT' THEN
            INSERT INTO counters (workspace, name, change)
            SELECT workspace, 'checkpoints', sum(change)
            FROM (SELECT workspace, 1 AS change FROM added) AS changed
            WHERE true
            GROUP BY 1, 2 HAVING sum(change) <> 0;
        ELSIF TG_OP = 'DELETE' THEN
            INSERT INTO counters (workspace, name, change)
            SELECT workspace, 'checkpoints', sum(change)
            FROM (SELECT workspace, -1 AS change FROM removed) AS changed
            WHERE true
            GROUP BY 1, 2 HAVING sum(change) <> 0;
        ELSE
            INSERT INTO counters (workspace, name, change)
            SELECT workspace, 'checkpoints', sum(change)
            FROM (SELECT workspace, 1 AS change FROM added UNION ALL SELECT workspace, -1 FROM removed) AS changed
            WHERE true
            GROUP BY 1, 2 HAVING sum(change) <> 0;
        END IF;
        RETURN NULL;
    END $$;

CREATE TRIGGER count_checkpoints_insert AFTER INSERT ON checkpoints
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION count_checkpoints();

CREATE TRIGGER count_checkpoints_delete AFTER DELETE ON checkpoints
    REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION count_checkpoints();

CREATE TRIGGER count_checkpoints_update AFTER UPDATE ON checkpoints
    REFERENCING OLD TABLE AS removed NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION count_checkpoints();

CREATE FUNCTION count_vectors() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF TG_OP = 'INSERT' THEN
            INSERT INTO counters (workspace, name, change)
            SELECT points.workspace, 'vectors.' || space, sum(change * bytes)
            FROM (SELECT point_id, space, length(vector) AS bytes, 1 AS change FROM added) AS changed JOIN points ON points.id = changed.point_id
            WHERE true
            GROUP BY 1, 2 HAVING sum(change * bytes) <> 0;
        ELSIF TG_OP = 'DELETE' THEN
            INSERT INTO counters (workspace, name, change)
            SELECT points.workspace, 'vectors.' || space, sum(change * bytes)
            FROM (SELECT point_id, space, length(vector) AS bytes, -1 AS change FROM removed) AS changed JOIN points ON points.id = changed.point_id
            WHERE true
            GROUP BY 1, 2 HAVING sum(change * bytes) <> 0;
        ELSE
            INSERT INTO counters (workspace, name, change)
            SELECT points.workspace, 'vectors.' || space, sum(change * bytes)
            FROM (SELECT point_id, space, length(vector) AS bytes, 1 AS change FROM added UNION ALL SELECT point_id, space, length(vector) AS bytes, -1 FROM removed) AS changed JOIN points ON points.id = changed.point_id
            WHERE true
            GROUP BY 1, 2 HAVING sum(change * bytes) <> 0;
        END IF;
        RETURN NULL;
    END $$;

CREATE TRIGGER count_vectors_insert AFTER INSERT ON vectors
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION count_vectors();

CREATE TRIGGER count_vectors_delete AFTER DELETE ON vectors
    REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION count_vectors();

CREATE TRIGGER count_vectors_update AFTER UPDATE ON vectors
    REFERENCING OLD TABLE AS removed NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION count_vectors();

CREATE FUNCTION delete_vectors_first() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        DELETE FROM vectors WHERE point_id = OLD.id;
        RETURN OLD;
    END $$;

CREATE TRIGGER delete_vectors_first BEFORE DELETE ON points
    FOR EACH ROW EXECUTE FUNCTION delete_vectors_first();

INSERT INTO counters (workspace, name, change)
    SELECT workspace, 'entries.' || status, count(*) FROM knowledge_staging GROUP BY 1, 2
    UNION ALL SELECT workspace, 'patterns', count(*) FROM patterns WHERE success_count > 0 GROUP BY 1
    UNION ALL SELECT workspace, 'points', count(*) FROM points WHERE look_at IS NULL GROUP BY 1
    UNION ALL SELECT workspace, 'checkpoints', count(*) FROM checkpoints GROUP BY 1
    UNION ALL SELECT points.workspace, 'vectors.' || space, sum(length(vector))
        FROM vectors JOIN points ON points.id = vectors.point_id GROUP BY 1, 2;
