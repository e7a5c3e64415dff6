"""The words of embedded entries, which triggers write with a text, and the view that searches them.

Words are stored when an entry is embedded, not when it is captured: a capture costs what it did. They go with the text.
Under row-level security Postgres enters an index only by operators that it considers leakproof, and those of text
search are not. So `entry_words`, which is closed as every table is, is not forced on its owner, and statements search
`entry_search`: a view of the owner's with the condition of the policies. It shows the rows that the policy would show,
and the planner may test the words first.
"""

from __future__ import annotations

from typing import Final

from knowledge.adapters.postgres.engine.row_security import OF_WORKSPACE

SEARCHED: Final = (
    "failure_description",
    "error_message",
    "solution_steps",
    "task_description",
    "human_feedback",
    "revision_approach",
    "proposal",
    "approved_approach",
    "when_to_try",
)
"""The columns that words are looked for in."""
MAX_WORD_CHARS: Final = 60
"""Characters of a word that are told apart; ours: a lexeme has at most 2,046 bytes."""

_VIEW: Final = """CREATE VIEW entry_search AS
    SELECT entry_id, workspace, pattern_id, words FROM entry_words WHERE {condition}"""

WORDS: Final = (
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
    _VIEW.format(condition=OF_WORKSPACE),
)
"""The functions, triggers and the view. A word is in lower case, behind a tag that tells workspaces apart in the index,
so that the words of others are hardly read; the view tells them apart for sure."""
