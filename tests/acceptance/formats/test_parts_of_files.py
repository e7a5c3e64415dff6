"""Heads and parts of text files: front matter is metadata, documents of one YAML file stay apart."""

from __future__ import annotations

from knowledge.documents.parsing.chunking import split_document
from knowledge.documents.parsing.decode import read


def test_documents_of_a_yaml_file_share_no_passage() -> None:
    text = "kind: Service\nport: 9100\n---\nkind: Deployment\nreplicas: 3\n---\nkind: Ingress\nhost: a.example\n"
    passages = [each.text for each in split_document(read("a.yaml", text.encode(), redacting=False))]
    assert len(passages) == 3
    assert ["9100" in passage for passage in passages] == [True, False, False]
    assert "replicas: 3" in passages[1]


def test_front_matter_in_toml_is_metadata() -> None:
    text = '+++\ntitle = "Limits"\ntags = ["a", "b"]\ncategory = "ops"\nweight = 4711\n+++\n\nThe quota is 75 GB.\n'
    document = read("a.md", text.encode(), redacting=False)
    assert (document.title, document.tags, document.category) == ("Limits", ("a", "b"), "ops")
    assert [each.text for each in split_document(document)] == ["The quota is 75 GB."]


def test_lines_of_a_page_stay_where_they_were() -> None:
    lines = [".TH A 1", ".SH NAME", "a \\- b", ".SH OPTIONS", ".TP", ".B \\-x", "Take 7.", ".nf", "a -x", ".fi"]
    document = read("a.1", "\n".join(lines).encode(), redacting=False)
    assert document.text.split("\n")[6].strip() == "Take 7."
    assert [each.line_start for each in split_document(document) if "Take 7." in each.text] == [4]
