"""Keep the words of embedded entries, written by triggers and indexed: what lists are searched by."""

from __future__ import annotations

from alembic import op

revision = "0044"
down_revision = "0043"
branch_labels = None
depends_on = None

_OF_WORKSPACE = """(workspace = current_setting('hardwon.workspace', true)
        OR (coalesce(current_setting('hardwon.workspace', true), '') = '' AND current_user <> 'hardwon_app'))"""

_VIEW = """CREATE VIEW entry_search AS
    SELECT entry_id, workspace, pattern_id, words FROM entry_words WHERE {condition}"""

_STATEMENTS = (
    """CREATE TABLE entry_words (
        entry_id uuid NOT NULL,
        workspace varchar(200) NOT NULL,
        pattern_id uuid NOT NULL,
        words tsvector NOT NULL,
        CONSTRAINT entry_words_pkey PRIMARY KEY (entry_id),
        CONSTRAINT entry_words_entry_id_fkey FOREIGN KEY (entry_id) REFERENCES knowledge_staging (id) ON DELETE CASCADE
    )""",
    r"""CREATE FUNCTION search_words(of_workspace text, given text) RETURNS tsvector
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE COST 1000 AS $$
    DECLARE
        tag text := left(encode(sha256(convert_to(of_workspace, 'UTF8')), 'hex'), 3);
        -- signs and blanks, spelt out: classes of characters depend on the locale of the database
        words text := regexp_replace(lower(given),
            '[\u0001-\u002f\u003a-\u0040\u005b-\u0060\u007b-\u00a9\u00ab-\u00b1\u00b4\u00b6-\u00b8\u00bb\u00bf'
            '\u2000-\u206f\u3000-\u303f\uff00-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65]+', ' ', 'g');
    BEGIN
        IF octet_length(words) <> length(words) THEN
            -- scripts without blanks between words: each letter is one
            words := regexp_replace(words,
                '([\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff])', ' \1 ', 'g');
        END IF;
        IF octet_length(words) > 2000 THEN
            words := regexp_replace(words, '([^ ]{60})[^ ]+', '\1', 'g');
        END IF;
        RETURN array_to_tsvector(array_remove(string_to_array(tag || replace(words, ' ', ' ' || tag), ' '), tag));
    END $$""",
    """CREATE FUNCTION search_query(of_workspace text, given text) RETURNS tsquery
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
        SELECT string_agg('''' || left(word, 63) || ''':*', ' & ')::tsquery
        FROM unnest(tsvector_to_array(search_words(of_workspace, given))) AS word
    $$""",
    """CREATE FUNCTION store_words() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO entry_words (entry_id, workspace, pattern_id, words) VALUES (
            NEW.id, NEW.workspace, NEW.pattern_id, search_words(NEW.workspace, concat_ws(' ',
                NEW.failure_description, NEW.error_message, NEW.solution_steps, NEW.task_description,
                NEW.human_feedback, NEW.revision_approach, NEW.proposal, NEW.approved_approach, NEW.when_to_try
            ))
        ) ON CONFLICT (entry_id) DO UPDATE SET pattern_id = excluded.pattern_id, words = excluded.words;
        RETURN NULL;
    END $$""",
    """CREATE FUNCTION delete_words() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        DELETE FROM entry_words WHERE entry_id = NEW.id;
        RETURN NULL;
    END $$""",
    """CREATE TRIGGER store_words AFTER INSERT OR UPDATE OF status, pattern_id,
        failure_description, error_message, solution_steps, task_description,
        human_feedback, revision_approach, proposal, approved_approach, when_to_try
    ON knowledge_staging FOR EACH ROW WHEN (NEW.status = 'embedded') EXECUTE FUNCTION store_words()""",
    """CREATE TRIGGER delete_words AFTER UPDATE OF status ON knowledge_staging FOR EACH ROW
    WHEN (OLD.status = 'embedded' AND NEW.status <> 'embedded') EXECUTE FUNCTION delete_words()""",
    # the triggers hold off writers until the end, so that no entry is missed
    """INSERT INTO entry_words (entry_id, workspace, pattern_id, words)
    SELECT id, workspace, pattern_id, search_words(workspace, concat_ws(
        ' ', failure_description, error_message, solution_steps, task_description, human_feedback, revision_approach,
        proposal, approved_approach, when_to_try
    )) FROM knowledge_staging WHERE status = 'embedded'""",
    "CREATE INDEX ix_entry_words ON entry_words USING gin (words)",
    "ALTER TABLE entry_words ENABLE ROW LEVEL SECURITY",
    f"CREATE POLICY of_workspace ON entry_words USING {_OF_WORKSPACE} WITH CHECK {_OF_WORKSPACE}",
    _VIEW.format(condition=_OF_WORKSPACE),
    # at once, not with the other rights: the release before captures until it ends, by the same triggers
    """DO $$ BEGIN
        IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'hardwon_app') THEN
            GRANT SELECT, INSERT, UPDATE, DELETE ON entry_words TO hardwon_app;
            GRANT SELECT ON entry_search TO hardwon_app;
        END IF;
    END $$""",
)


def upgrade() -> None:
    """Forward only."""
    for statement in _STATEMENTS:
        op.execute(statement)
