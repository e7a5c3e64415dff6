"""Terms of stored texts: packed and unpacked alike, and those of before as long as their version is the same."""

from __future__ import annotations

from dataclasses import astuple
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge.memory.rules.entry_profile import build_profile
from knowledge.retrieval.term_profile import RULES, TextTerms, extract_terms, unpack
from knowledge.text.bm25 import term_counts
from tests.support.entries import approval, failure, rejection

SAMPLES = (
    "",
    "ModuleNotFoundError: No module named 'app.core' when the URLs of get_user2 are dying",
    "データベース接続が失敗しました。 pip install psycopg2-binary==2.9.9",
    "skies cried " * 400 + "\nE   AssertionError: assert CamelCaseName == 'x'",
)
RUN = """\
2026-01-02 03:04:05 ERROR [worker-7] /home/eve/shop/cart.py:42
E   TypeError: can't compare offset-naive and offset-aware datetimes at 0x7f0a1b2c3d4e
=== 1 failed in 0.31s ===
"""
DIFF = """\
diff --git a/cart.py b/cart.py
index 1a2b3c4..5d6e7f8 100644
--- a/cart.py
+++ b/cart.py
@@ -40,2 +40,2 @@
-    now = datetime.now()
+    now = datetime.now(UTC)
"""


def parts(terms: TextTerms) -> tuple[object, ...]:
    prefixes = {"dyi", "ski"}
    return terms.words_for(prefixes), terms.opening_for(prefixes), list(terms.wholes), terms.ids


@pytest.mark.parametrize("text", SAMPLES)
def test_packed_terms_are_unpacked_alike(text: str) -> None:
    terms = extract_terms(text)
    assert parts(unpack(terms.pack())) == parts(terms)
    assert terms.ids == term_counts(text).keys()


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0")))
def test_any_text_is_packed(text: str) -> None:
    terms = extract_terms(text)
    assert parts(unpack(terms.pack())) == parts(terms)


def test_a_stem_that_begins_otherwise_counts_only_where_the_question_has_a_word_of_that_beginning() -> None:
    terms = extract_terms("a dying process")
    assert terms.words_for({"die"}) == ["dying", "process"]
    assert terms.words_for({"die", "dyi"}) == ["die", "process"]


def test_the_profiles_of_entries_change_only_with_the_version_of_the_rules() -> None:
    """The keys of resolutions were made otherwise once, and verify took each profile of before for an altered one."""
    told = [failure(failure_description=text or "It broke", solution_steps=text or "mend it") for text in SAMPLES]
    told += [failure(failure_description=RUN, solution_steps=DIFF, error_message=RUN), rejection(), approval()]
    profiles = [astuple(build_profile(each)) for each in told]
    made = sha256(repr(profiles).encode()).hexdigest()
    assert (RULES, made[:16]) == (2, "83e8490956c7a7d9"), "raise RULES, and put the new hash here"
