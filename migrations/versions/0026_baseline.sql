-- The schema of revision 0026, frozen: a change of the schema is a new revision.

-- The memory: entries, patterns, points, contexts, outcomes; keys, jobs and the audit log.

CREATE TABLE projects (
    workspace varchar(200) NOT NULL,
    project_id varchar(200) NOT NULL,
    created_at timestamptz DEFAULT now() NOT NULL,
    CONSTRAINT projects_pkey PRIMARY KEY (workspace, project_id)
);

CREATE TABLE workspaces (
    workspace varchar(200) NOT NULL,
    local_only boolean DEFAULT false NOT NULL,
    CONSTRAINT workspaces_pkey PRIMARY KEY (workspace)
);

CREATE TABLE spending (
    workspace varchar(200) NOT NULL,
    day timestamptz NOT NULL,
    tokens bigint NOT NULL,
    CONSTRAINT spending_pkey PRIMARY KEY (workspace, day),
    CONSTRAINT spending_spending_tokens_check CHECK (tokens >= 0)
);

CREATE TABLE patterns (
    id uuid NOT NULL,
    workspace varchar(200) NOT NULL,
    entry_type varchar(50) NOT NULL,
    match_key varchar(64) NOT NULL,
    founding_entry_id uuid NOT NULL,
    success_count integer DEFAULT '0' NOT NULL,
    attempt_count integer DEFAULT '0' NOT NULL,
    project_count integer DEFAULT '0' NOT NULL,
    founded_at timestamptz NOT NULL,
    CONSTRAINT patterns_pkey PRIMARY KEY (id),
    CONSTRAINT patterns_counts_check CHECK (
        success_count >= 0 AND attempt_count >= success_count AND project_count >= 0),
    CONSTRAINT patterns_match_key UNIQUE (workspace, match_key)
);

CREATE TABLE knowledge_staging (
    id uuid NOT NULL,
    workspace varchar(200) NOT NULL,
    project_id varchar(200) NOT NULL,
    entry_type varchar(50) NOT NULL,
    agent_type varchar(100),
    task_type varchar(100),
    technology varchar(100),
    task_description text,
    failure_description text,
    error_message text,
    solution_steps text,
    gate_type varchar(50),
    proposal text,
    human_feedback text,
    revision_approach text,
    approved_approach text,
    when_to_try text,
    success_verified boolean DEFAULT false NOT NULL,
    verified_by varchar(500),
    task_id varchar(200),
    run_id varchar(200),
    idempotency_key varchar(200),
    content_hash varchar(64) NOT NULL,
    timestamp timestamptz NOT NULL,
    status varchar(20) NOT NULL,
    embedded boolean GENERATED ALWAYS AS (status = 'embedded') STORED NOT NULL,
    attempts integer DEFAULT '0' NOT NULL,
    lease_token uuid,
    lease_until timestamptz,
    dead_reason text,
    pattern_id uuid,
    point_ids uuid[] DEFAULT '{}'::uuid[] NOT NULL,
    embedded_at timestamptz,
    expires_at timestamptz,
    applies_when jsonb,
    error_signature text GENERATED ALWAYS AS (coalesce(
        substring(left(error_message, 2000), '(?<![A-Za-z0-9_])([A-Za-z_][A-Za-z0-9_]{0,60}(Error|Exception|Warning))(?![A-Za-z0-9_])'),
        substring(right(error_message, 2000), '(?<![A-Za-z0-9_])([A-Za-z_][A-Za-z0-9_]{0,60}(Error|Exception|Warning))(?![A-Za-z0-9_])'),
        substring(left(error_message, 2000), '(?<![A-Za-z0-9_])(E[A-Z]{3,12}|[A-Z]{1,6}-?[0-9]{2,6})(?![A-Za-z0-9_])'),
        substring(left(failure_description, 200), '(?<![A-Za-z0-9_])([A-Za-z_][A-Za-z0-9_]{0,60}(Error|Exception|Warning))(?![A-Za-z0-9_])')
    )) STORED,
    captured_by varchar(100),
    resolved_by varchar(100),
    low_trust boolean DEFAULT false NOT NULL,
    suspicions text[] DEFAULT '{}'::text[] NOT NULL,
    agent_key varchar(100),
    CONSTRAINT knowledge_staging_pkey PRIMARY KEY (id),
    CONSTRAINT knowledge_staging_dead_check CHECK ((status = 'dead') = (dead_reason IS NOT NULL)),
    CONSTRAINT knowledge_staging_embedded_check CHECK (
        (status = 'embedded') = (embedded_at IS NOT NULL AND expires_at IS NOT NULL)
        AND (status <> 'embedded' OR pattern_id IS NOT NULL)
        AND expires_at > embedded_at),
    CONSTRAINT knowledge_staging_entry_type_check CHECK (
        entry_type IN ('failure_solution', 'gate_rejection', 'gate_approval')),
    CONSTRAINT knowledge_staging_lease_check CHECK ((lease_token IS NULL) = (lease_until IS NULL)),
    CONSTRAINT knowledge_staging_leased_check CHECK (lease_token IS NULL OR status = 'staged'),
    CONSTRAINT knowledge_staging_resolution_check CHECK (
        status IN ('open', 'abandoned', 'quarantined') OR CASE entry_type
            WHEN 'failure_solution' THEN coalesce(solution_steps ~ '[^[:space:]]', false) AND success_verified
            WHEN 'gate_rejection' THEN coalesce(revision_approach ~ '[^[:space:]]', false)
            ELSE true
        END),
    CONSTRAINT knowledge_staging_situation_check CHECK (
        CASE entry_type
            WHEN 'failure_solution' THEN
                coalesce(failure_description ~ '[^[:space:]]', false) AND coalesce(agent_type ~ '[^[:space:]]', false)
            WHEN 'gate_rejection' THEN
                coalesce(gate_type ~ '[^[:space:]]', false) AND coalesce(human_feedback ~ '[^[:space:]]', false)
            WHEN 'gate_approval' THEN
                coalesce(gate_type ~ '[^[:space:]]', false) AND coalesce(approved_approach ~ '[^[:space:]]', false)
            ELSE false
        END),
    CONSTRAINT knowledge_staging_status_check CHECK (
        status IN ('open', 'staged', 'embedded', 'dead', 'abandoned', 'quarantined')),
    CONSTRAINT knowledge_staging_pattern_id_fkey FOREIGN KEY (pattern_id) REFERENCES patterns (id),
    CONSTRAINT knowledge_staging_workspace_project_id_fkey
        FOREIGN KEY (workspace, project_id) REFERENCES projects (workspace, project_id) ON DELETE CASCADE
);

CREATE INDEX ix_knowledge_staging_dead ON knowledge_staging (workspace, timestamp) WHERE status = 'dead';
CREATE INDEX ix_knowledge_staging_expiry ON knowledge_staging (workspace, expires_at) WHERE status = 'embedded';
CREATE INDEX ix_knowledge_staging_out_of_reach ON knowledge_staging (workspace, pattern_id)
    WHERE status = 'embedded' AND point_ids = '{}'::uuid[];
CREATE INDEX ix_knowledge_staging_pending ON knowledge_staging (workspace, timestamp, id) WHERE status = 'staged';
CREATE INDEX ix_knowledge_staging_pending_project ON knowledge_staging (workspace, project_id, timestamp, id)
    WHERE status = 'staged';
CREATE INDEX ix_knowledge_staging_quarantined ON knowledge_staging (workspace, timestamp, id)
    WHERE status = 'quarantined';
CREATE INDEX ix_knowledge_staging_rejection ON knowledge_staging (workspace, project_id, gate_type)
    WHERE entry_type = 'gate_rejection';
CREATE INDEX ix_knowledge_staging_trust ON knowledge_staging (
    pattern_id,
    low_trust,
    (CASE WHEN entry_type <> 'failure_solution' THEN 0 WHEN verified_by IS NOT NULL THEN 1 ELSE 2 END),
    embedded_at DESC,
    id
) WHERE pattern_id IS NOT NULL;
CREATE INDEX ix_knowledge_staging_unresolved ON knowledge_staging (workspace, timestamp)
    WHERE status IN ('open', 'abandoned');
CREATE UNIQUE INDEX knowledge_staging_event ON knowledge_staging (
    workspace,
    project_id,
    (CASE WHEN task_id IS NULL THEN '' ELSE task_id END),
    (CASE WHEN run_id IS NULL THEN '' ELSE run_id END),
    content_hash
);
CREATE UNIQUE INDEX knowledge_staging_idempotency_key ON knowledge_staging (workspace, idempotency_key)
    WHERE idempotency_key IS NOT NULL;

CREATE TABLE points (
    id uuid NOT NULL,
    workspace varchar(200) NOT NULL,
    pattern_id uuid NOT NULL,
    view varchar(20) NOT NULL,
    embedded_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    counted boolean DEFAULT true NOT NULL,
    look_at timestamptz,
    CONSTRAINT points_pkey PRIMARY KEY (id),
    CONSTRAINT points_pattern_id_fkey FOREIGN KEY (pattern_id) REFERENCES patterns (id) ON DELETE CASCADE
);

CREATE INDEX ix_points_expiry ON points (workspace, expires_at);
CREATE INDEX ix_points_look_at ON points (workspace, look_at) WHERE look_at IS NOT NULL;
CREATE INDEX ix_points_pattern ON points (pattern_id);
CREATE INDEX ix_points_uncounted ON points (workspace) WHERE NOT counted;

CREATE TABLE vectors (
    point_id uuid NOT NULL,
    space varchar(64) NOT NULL,
    vector bytea NOT NULL,
    CONSTRAINT vectors_pkey PRIMARY KEY (point_id, space),
    CONSTRAINT vectors_point_id_fkey FOREIGN KEY (point_id) REFERENCES points (id) ON DELETE CASCADE
);

CREATE TABLE match_keys (
    workspace varchar(200) NOT NULL,
    match_key varchar(64) NOT NULL,
    pattern_id uuid NOT NULL,
    why text[] DEFAULT '{}'::text[] NOT NULL,
    ruled boolean DEFAULT false NOT NULL,
    decided_at timestamptz NOT NULL,
    CONSTRAINT match_keys_pkey PRIMARY KEY (workspace, match_key),
    CONSTRAINT match_keys_pattern_id_fkey FOREIGN KEY (pattern_id) REFERENCES patterns (id) ON DELETE CASCADE
);

CREATE INDEX ix_match_keys_pattern ON match_keys (pattern_id);

CREATE TABLE links (
    lower_id uuid NOT NULL,
    upper_id uuid NOT NULL,
    workspace varchar(200) NOT NULL,
    kind varchar(20) NOT NULL,
    probability double precision NOT NULL,
    why text[] NOT NULL,
    found_at timestamptz NOT NULL,
    CONSTRAINT links_pkey PRIMARY KEY (lower_id, upper_id),
    CONSTRAINT links_kind_check CHECK (kind IN ('rival', 'twin', 'apart')),
    CONSTRAINT links_order_check CHECK (lower_id < upper_id),
    CONSTRAINT links_lower_id_fkey FOREIGN KEY (lower_id) REFERENCES patterns (id) ON DELETE CASCADE,
    CONSTRAINT links_upper_id_fkey FOREIGN KEY (upper_id) REFERENCES patterns (id) ON DELETE CASCADE
);

CREATE INDEX ix_links_kind ON links (workspace, kind, probability);
CREATE INDEX ix_links_upper ON links (upper_id);

CREATE TABLE distillations (
    pattern_id uuid NOT NULL,
    title text,
    problem text,
    when_to_try text,
    when_not_to_try text,
    refused text,
    evidence integer NOT NULL,
    model text NOT NULL,
    answered_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    CONSTRAINT distillations_pkey PRIMARY KEY (pattern_id),
    CONSTRAINT distillations_written_check CHECK (
        num_nonnulls(title, problem, when_to_try, when_not_to_try) = CASE WHEN refused IS NULL THEN 4 ELSE 0 END),
    CONSTRAINT distillations_pattern_id_fkey FOREIGN KEY (pattern_id) REFERENCES patterns (id) ON DELETE CASCADE
);

CREATE TABLE distilled_from (
    pattern_id uuid NOT NULL,
    entry_id uuid NOT NULL,
    CONSTRAINT distilled_from_pkey PRIMARY KEY (pattern_id, entry_id),
    CONSTRAINT distilled_from_entry_id_fkey
        FOREIGN KEY (entry_id) REFERENCES knowledge_staging (id) ON DELETE CASCADE,
    CONSTRAINT distilled_from_pattern_id_fkey
        FOREIGN KEY (pattern_id) REFERENCES distillations (pattern_id) ON DELETE CASCADE
);

CREATE INDEX ix_distilled_from_entry ON distilled_from (entry_id);

CREATE TABLE checkpoints (
    id uuid NOT NULL,
    workspace varchar(200) NOT NULL,
    project_id varchar(200),
    checkpoint_type varchar(50) NOT NULL,
    started_at timestamptz NOT NULL,
    finished_at timestamptz,
    report jsonb DEFAULT '{}'::jsonb NOT NULL,
    CONSTRAINT checkpoints_pkey PRIMARY KEY (id),
    CONSTRAINT checkpoints_checkpoint_type_check CHECK (
        checkpoint_type IN ('phase_completion', 'project_completion', 'cancellation', 'manual'))
);

CREATE INDEX ix_checkpoints_started ON checkpoints (workspace, started_at);

CREATE TABLE contexts (
    id uuid NOT NULL,
    workspace varchar(200) NOT NULL,
    project_id varchar(200),
    task_id varchar(200),
    run_id varchar(200),
    agent_type varchar(100),
    pattern_ids uuid[] NOT NULL,
    created_at timestamptz NOT NULL,
    entry_ids uuid[] DEFAULT '{}'::uuid[] NOT NULL,
    CONSTRAINT contexts_pkey PRIMARY KEY (id)
);

CREATE INDEX ix_contexts_created ON contexts (workspace, created_at);
CREATE INDEX ix_contexts_task ON contexts (workspace, project_id, task_id);

CREATE TABLE outcomes (
    id uuid NOT NULL,
    workspace varchar(200) NOT NULL,
    context_id uuid NOT NULL,
    pattern_id uuid NOT NULL,
    project_id varchar(200) NOT NULL,
    task_id varchar(200) NOT NULL,
    run_id varchar(200) NOT NULL,
    worked boolean NOT NULL,
    recorded_at timestamptz NOT NULL,
    recorded_by varchar(100),
    low_trust boolean DEFAULT false NOT NULL,
    CONSTRAINT outcomes_pkey PRIMARY KEY (id),
    CONSTRAINT outcomes_context_id_fkey FOREIGN KEY (context_id) REFERENCES contexts (id) ON DELETE CASCADE,
    CONSTRAINT outcomes_pattern_id_fkey FOREIGN KEY (pattern_id) REFERENCES patterns (id) ON DELETE CASCADE,
    CONSTRAINT outcomes_event_key UNIQUE (workspace, pattern_id, project_id, task_id, run_id)
);

CREATE INDEX ix_outcomes_context ON outcomes (context_id);
CREATE INDEX ix_outcomes_pattern ON outcomes (pattern_id);

CREATE TABLE job_run (
    job varchar(100) NOT NULL,
    slot timestamptz NOT NULL,
    started_at timestamptz DEFAULT now() NOT NULL,
    finished_at timestamptz,
    attempts integer DEFAULT '1' NOT NULL,
    error text,
    CONSTRAINT job_run_pkey PRIMARY KEY (job, slot)
);

CREATE TABLE embedding_spaces (
    fingerprint varchar(64) NOT NULL,
    space jsonb NOT NULL,
    mean_terms double precision NOT NULL,
    calibration jsonb NOT NULL,
    active boolean NOT NULL,
    bound_at timestamptz DEFAULT now() NOT NULL,
    probes bytea,
    CONSTRAINT embedding_spaces_pkey PRIMARY KEY (fingerprint)
);

CREATE UNIQUE INDEX embedding_spaces_one_active ON embedding_spaces (active) WHERE active;

CREATE TABLE lexicon (
    workspace varchar(200) NOT NULL,
    term bigint NOT NULL,
    documents bigint NOT NULL,
    CONSTRAINT lexicon_pkey PRIMARY KEY (workspace, term)
);

CREATE TABLE api_keys (
    id varchar(12) NOT NULL,
    name varchar(100),
    scopes varchar(20)[] NOT NULL,
    workspace varchar(200),
    secret_hash bytea NOT NULL,
    pepper varchar(12) NOT NULL,
    created_at timestamptz NOT NULL,
    expires_at timestamptz,
    revoked_at timestamptz,
    replaced_by varchar(12),
    last_used_at timestamptz,
    first_key varchar(12),
    CONSTRAINT api_keys_pkey PRIMARY KEY (id),
    CONSTRAINT api_keys_scopes_check CHECK (
        cardinality(scopes) > 0 AND scopes <@ ARRAY['capture', 'query', 'documents', 'review', 'admin']::varchar[]),
    CONSTRAINT api_keys_secret_hash_check CHECK (octet_length(secret_hash) = 32)
);

CREATE TABLE audit_log (
    workspace varchar(200) NOT NULL,
    number bigint NOT NULL,
    at timestamptz NOT NULL,
    who varchar(200) NOT NULL,
    what varchar(100) NOT NULL,
    details text NOT NULL,
    before bytea NOT NULL,
    hash bytea NOT NULL,
    CONSTRAINT audit_log_pkey PRIMARY KEY (workspace, number),
    CONSTRAINT audit_log_chain_check CHECK (number > 0 AND octet_length(before) = 32 AND octet_length(hash) = 32)
);

-- Answers: cache, events, escalations, feedback.

CREATE TABLE answer_cache (
    workspace varchar(200) NOT NULL,
    key varchar(64) NOT NULL,
    partitions text[] NOT NULL,
    answer text NOT NULL,
    expires_at timestamptz NOT NULL,
    CONSTRAINT answer_cache_pkey PRIMARY KEY (workspace, key)
);

CREATE INDEX ix_answer_cache_expires_at ON answer_cache (expires_at);

CREATE TABLE qa_events (
    id uuid NOT NULL,
    workspace varchar(200) NOT NULL,
    name varchar(100) NOT NULL,
    session varchar(200),
    step varchar(200),
    payload jsonb NOT NULL,
    happened_at timestamptz DEFAULT now() NOT NULL,
    reviewed boolean DEFAULT false NOT NULL,
    CONSTRAINT qa_events_pkey PRIMARY KEY (id)
);

CREATE INDEX ix_qa_events_latest ON qa_events (workspace, happened_at);

CREATE TABLE escalations (
    id uuid NOT NULL,
    workspace varchar(200) NOT NULL,
    question_hash varchar(64) NOT NULL,
    question text NOT NULL,
    transcript jsonb NOT NULL,
    passage_ids uuid[] NOT NULL,
    suggested_fix text NOT NULL,
    created_at timestamptz NOT NULL,
    asked_at timestamptz[] NOT NULL,
    due_at timestamptz NOT NULL,
    priority varchar(20) NOT NULL,
    closed_at timestamptz,
    CONSTRAINT escalations_pkey PRIMARY KEY (id),
    CONSTRAINT escalations_escalations_priority_check CHECK (priority IN ('normal', 'high'))
);

CREATE UNIQUE INDEX ix_escalations_open ON escalations (workspace, question_hash) WHERE closed_at IS NULL;

CREATE TABLE answer_feedback (
    workspace varchar(200) NOT NULL,
    answer_id uuid NOT NULL,
    up boolean NOT NULL,
    comment text,
    given_at timestamptz NOT NULL,
    CONSTRAINT answer_feedback_pkey PRIMARY KEY (workspace, answer_id)
);

-- Documents: partitions, sources, versions, passages, lines, vectors.

CREATE TABLE kb_partitions (
    workspace varchar(200) NOT NULL,
    partition varchar(200) NOT NULL,
    version bigint DEFAULT '0' NOT NULL,
    closed_at timestamptz,
    CONSTRAINT kb_partitions_pkey PRIMARY KEY (workspace, partition)
);

CREATE TABLE kb_grants (
    workspace varchar(200) NOT NULL,
    kb varchar(50) NOT NULL,
    scope_id varchar(200) NOT NULL,
    principal varchar(200) NOT NULL,
    granted_at timestamptz DEFAULT now() NOT NULL,
    CONSTRAINT kb_grants_pkey PRIMARY KEY (workspace, kb, scope_id, principal)
);

CREATE INDEX ix_kb_grants_principal ON kb_grants (workspace, principal);

CREATE TABLE kb_sources (
    id uuid NOT NULL,
    workspace varchar(200) NOT NULL,
    partition varchar(200) NOT NULL,
    url text NOT NULL,
    branch varchar(200),
    subdir text DEFAULT '' NOT NULL,
    globs text[] DEFAULT '{}'::text[] NOT NULL,
    last_commit varchar(64),
    last_error text,
    synced_at timestamptz,
    CONSTRAINT kb_sources_pkey PRIMARY KEY (id),
    CONSTRAINT kb_sources_url UNIQUE (workspace, partition, url, subdir)
);

CREATE TABLE kb_documents (
    id uuid NOT NULL,
    workspace varchar(200) NOT NULL,
    partition varchar(200) NOT NULL,
    uri text NOT NULL,
    name text NOT NULL,
    link text,
    source_id uuid,
    mark text,
    content_hash varchar(64) NOT NULL,
    status varchar(20) NOT NULL,
    error text,
    latest integer NOT NULL,
    active_generation integer,
    attempts integer DEFAULT '0' NOT NULL,
    not_before timestamptz,
    lease_token uuid,
    lease_until timestamptz,
    added_at timestamptz DEFAULT now() NOT NULL,
    indexed_at timestamptz,
    text_hashes jsonb DEFAULT '{}'::jsonb NOT NULL,
    CONSTRAINT kb_documents_pkey PRIMARY KEY (id),
    CONSTRAINT kb_documents_error_check CHECK (status <> 'failed' OR error IS NOT NULL),
    CONSTRAINT kb_documents_generation_check CHECK (
        status <> 'indexed' OR active_generation IS NOT DISTINCT FROM latest),
    CONSTRAINT kb_documents_lease_check CHECK ((lease_token IS NULL) = (lease_until IS NULL)),
    CONSTRAINT kb_documents_leased_check CHECK (lease_token IS NULL OR status = 'pending'),
    CONSTRAINT kb_documents_status_check CHECK (status IN ('pending', 'indexed', 'failed', 'deleting')),
    CONSTRAINT kb_documents_source_id_fkey FOREIGN KEY (source_id) REFERENCES kb_sources (id) ON DELETE SET NULL,
    CONSTRAINT kb_documents_workspace_partition_fkey
        FOREIGN KEY (workspace, partition) REFERENCES kb_partitions (workspace, partition)
);

CREATE INDEX ix_kb_documents_deleting ON kb_documents (workspace) WHERE status = 'deleting';
CREATE INDEX ix_kb_documents_pending ON kb_documents (workspace, added_at, id) WHERE status = 'pending';
CREATE INDEX ix_kb_documents_source ON kb_documents (source_id);
CREATE UNIQUE INDEX kb_documents_uri ON kb_documents (workspace, partition, md5(uri)) WHERE status <> 'deleting';

CREATE TABLE kb_versions (
    document_id uuid NOT NULL,
    generation integer NOT NULL,
    title text NOT NULL,
    document_type varchar(20) NOT NULL,
    category text,
    tags text[] DEFAULT '{}'::text[] NOT NULL,
    text text NOT NULL,
    text_hash varchar(64) NOT NULL,
    lines integer NOT NULL,
    pages integer[] DEFAULT '{}'::integer[] NOT NULL,
    notes text[] DEFAULT '{}'::text[] NOT NULL,
    space varchar(64),
    CONSTRAINT kb_versions_pkey PRIMARY KEY (document_id, generation),
    CONSTRAINT kb_versions_document_id_fkey FOREIGN KEY (document_id) REFERENCES kb_documents (id) ON DELETE CASCADE
);

CREATE TABLE kb_chunks (
    id uuid NOT NULL,
    document_id uuid NOT NULL,
    generation integer NOT NULL,
    ordinal integer NOT NULL,
    kind varchar(20) NOT NULL,
    text text NOT NULL,
    text_hash bytea NOT NULL,
    section text,
    function text,
    page integer,
    char_start integer NOT NULL,
    char_end integer NOT NULL,
    line_start integer NOT NULL,
    line_end integer NOT NULL,
    ts timestamptz,
    until timestamptz,
    severities text[] DEFAULT '{}'::text[] NOT NULL,
    terms bigint[] NOT NULL,
    CONSTRAINT kb_chunks_pkey PRIMARY KEY (id),
    CONSTRAINT kb_chunks_kind_check CHECK (kind IN ('chunk', 'summary')),
    CONSTRAINT kb_chunks_document_id_generation_fkey
        FOREIGN KEY (document_id, generation) REFERENCES kb_versions (document_id, generation) ON DELETE CASCADE,
    CONSTRAINT kb_chunks_place UNIQUE (document_id, generation, ordinal)
);

CREATE INDEX ix_kb_chunks_text_hash ON kb_chunks (text_hash);

CREATE TABLE kb_vectors (
    space varchar(64) NOT NULL,
    text_hash bytea NOT NULL,
    vector bytea NOT NULL,
    made_at timestamptz DEFAULT now() NOT NULL,
    workspace varchar(200) DEFAULT '' NOT NULL,
    CONSTRAINT kb_vectors_pkey PRIMARY KEY (workspace, space, text_hash)
);

CREATE TABLE kb_lines (
    document_id uuid NOT NULL,
    generation integer NOT NULL,
    line integer NOT NULL,
    ts timestamptz,
    severity varchar(10),
    template text NOT NULL,
    text text NOT NULL,
    CONSTRAINT kb_lines_pkey PRIMARY KEY (document_id, generation, line),
    CONSTRAINT kb_lines_document_id_generation_fkey
        FOREIGN KEY (document_id, generation) REFERENCES kb_versions (document_id, generation) ON DELETE CASCADE
);

CREATE TABLE kb_terms (
    workspace varchar(200) NOT NULL,
    partition varchar(200) NOT NULL,
    term bigint NOT NULL,
    passages bigint NOT NULL,
    CONSTRAINT kb_terms_pkey PRIMARY KEY (workspace, partition, term)
);

CREATE TABLE kb_scales (
    workspace varchar(200) NOT NULL,
    space varchar(64) NOT NULL,
    low double precision NOT NULL,
    high double precision NOT NULL,
    passages integer NOT NULL,
    measured_at timestamptz DEFAULT now() NOT NULL,
    CONSTRAINT kb_scales_pkey PRIMARY KEY (workspace, space),
    CONSTRAINT kb_scales_order_check CHECK (low < high)
);

-- Triggers: a distillation goes with any entry it was made of; a document keeps the hashes of its latest texts.

CREATE FUNCTION forget_distillation() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            DELETE FROM distillations WHERE pattern_id = OLD.pattern_id;
            RETURN NULL;
        END $$;

CREATE TRIGGER forget_with_entry AFTER DELETE ON distilled_from
    FOR EACH ROW EXECUTE FUNCTION forget_distillation();

CREATE TRIGGER forget_when_moved AFTER UPDATE OF pattern_id ON knowledge_staging FOR EACH ROW
    WHEN (OLD.pattern_id IS NOT NULL AND OLD.pattern_id IS DISTINCT FROM NEW.pattern_id)
    EXECUTE FUNCTION forget_distillation();

CREATE FUNCTION remember_text() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            UPDATE kb_documents
            SET text_hashes = (text_hashes - (NEW.generation - 1000)::text)
                || jsonb_build_object(NEW.generation, NEW.text_hash)
            WHERE id = NEW.document_id;
            RETURN NULL;
        END $$;

CREATE TRIGGER remember_text AFTER INSERT ON kb_versions
    FOR EACH ROW EXECUTE FUNCTION remember_text();

-- Row security: a session sees the rows of the workspace it names; FORCE applies that to the tables' owner, too.

DO $$
    DECLARE
        owned text;
        condition CONSTANT text := $condition$
            workspace = current_setting('hardwon.workspace', true)
            OR (coalesce(current_setting('hardwon.workspace', true), '') = '' AND current_user <> 'hardwon_app')
        $condition$;
    BEGIN
        FOREACH owned IN ARRAY ARRAY[
            'projects', 'workspaces', 'spending', 'knowledge_staging', 'patterns', 'points',
            'match_keys', 'links', 'checkpoints', 'contexts', 'outcomes', 'lexicon', 'audit_log',
            'kb_partitions', 'kb_grants', 'kb_sources', 'kb_documents', 'kb_vectors', 'kb_terms',
            'kb_scales', 'answer_cache', 'qa_events', 'escalations', 'answer_feedback'
        ] LOOP
            EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', owned);
            EXECUTE format('CREATE POLICY of_workspace ON %1$I USING (%2$s) WITH CHECK (%2$s)', owned, condition);
        END LOOP;
    END $$;

-- Tables without a workspace column: a row is visible where the row it belongs to is.

DO $$
    DECLARE
        part record;
        condition text;
    BEGIN
        FOR part IN SELECT * FROM (VALUES
            ('vectors', 'points', 'point_id'),
            ('distillations', 'patterns', 'pattern_id'),
            ('distilled_from', 'patterns', 'pattern_id'),
            ('kb_versions', 'kb_documents', 'document_id'),
            ('kb_chunks', 'kb_documents', 'document_id'),
            ('kb_lines', 'kb_documents', 'document_id')
        ) AS parts(name, whole, key) LOOP
            condition := format(
                'EXISTS (SELECT 1 FROM %1$I WHERE %1$I.id = %2$I.%3$I)', part.whole, part.name, part.key
            );
            EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', part.name);
            EXECUTE format('CREATE POLICY of_workspace ON %1$I USING (%2$s) WITH CHECK (%2$s)', part.name, condition);
        END LOOP;
    END $$;
