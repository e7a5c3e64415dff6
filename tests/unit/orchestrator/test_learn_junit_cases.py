"""Reports as tools really write them: the shared cases of real files, and a small input for each kind of surprise."""

from __future__ import annotations

import gzip
import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from hardwon.errors import InvalidInput
from knowledge.memory.rules.validation import validate
from knowledge.models import NewEntry
from orchestrator.importers.ci_reports import report_files, valid_xml
from orchestrator.importers.junit import RepairedTests, read_repaired_tests
from tests.support.cases import case_by_case, load_tables

CASES = Path(__file__).resolve().parents[4] / "shared" / "cases"
FAILED = '<failure message="expected 3, got -1"/>'


def read(before: Path | list[Path], after: Path | list[Path]) -> tuple[list[NewEntry], RepairedTests]:
    read = read_repaired_tests(before, after, project="shop", solution="mend it")
    entries = list(read.entries)
    for entry in entries:
        validate(entry)
    return entries, read


def write(path: Path, content: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding="utf-8")
    return path


@case_by_case
def test_the_files_of_real_tools_give_the_right_result(
    before: str, after: str, learned: list[list[str]], left_out: dict[str, int]
) -> None:
    if not (CASES / before).exists():
        pytest.skip(f"the files of real tools are not at {CASES}")
    entries, found = read(CASES / before, CASES / after)
    assert [entry.task_id for entry in entries] == [name for name, _ in learned]
    for entry, (_, words) in zip(entries, learned, strict=True):
        assert entry.failure_description is not None
        assert words in entry.failure_description
        assert "\x1b" not in entry.failure_description
    assert found.left_out == left_out
    assert found.unread == []


def test_the_same_class_of_another_module_proves_nothing_though_only_its_file_is_given() -> None:
    folder = CASES / "ci2" / "surefire-3.6-two-modules"
    if not folder.exists():
        pytest.skip(f"the files of real tools are not at {CASES}")
    entries, found = read(folder / "before/a/TEST-x.SameTest.xml", folder / "after-only-b/b/TEST-x.SameTest.xml")
    assert (entries, found.left_out) == ([], {"ran_elsewhere": 1})


@case_by_case
def test_each_kind_of_report_gives_what_it_proves(
    tmp_path: Path, before: str, after: str, learned: list[str], left_out: dict[str, int]
) -> None:
    first = write(tmp_path / "before.xml", before.replace("FAILED", FAILED))
    entries, found = read(first, write(tmp_path / "after.xml", after.replace("FAILED", FAILED)))
    assert [entry.failure_description for entry in entries] == learned
    assert found.left_out == left_out


@pytest.mark.parametrize("row", load_tables("test_learn_junit_cases")["words"])
def test_the_line_that_says_what_went_wrong_describes_a_failure(tmp_path: Path, row: dict[str, str]) -> None:
    case = f'<testsuite name="s"><testcase classname="C" name="t">{row["children"]}</testcase></testsuite>'
    passed = '<testsuite name="s"><testcase classname="C" name="t"/></testsuite>'
    (entry,), _ = read(write(tmp_path / "before.xml", case), write(tmp_path / "after.xml", passed))
    assert entry.failure_description == f"C::t\n{row['said']}"
    assert entry.technology == row.get("technology")


def suite(name: str, *cases: str) -> str:
    return f'<testsuite name="{name}">{"".join(cases)}</testsuite>'


def case(name: str, *, failed: bool = False, classname: str = "C") -> str:
    return f'<testcase classname="{classname}" name="{name}">{FAILED if failed else ""}</testcase>'


def test_files_and_folders_of_a_run_are_one_run_and_what_is_no_report_in_a_folder_is_passed_over(
    tmp_path: Path,
) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    write(before / "x" / "TEST-a.xml", suite("a", case("one", failed=True, classname="a")))
    write(before / "TEST-b.xml", suite("b", case("two", failed=True, classname="b")))
    write(before / "failsafe-summary.xml", "<failsafe-summary><completed>1</completed></failsafe-summary>")
    write(before / "broken.xml", "<testsuite><testcase name='x'><failure>half")
    write(before / "notes.txt", "no report")
    write(after / "x" / "TEST-a.xml", suite("a", case("one", classname="a")))
    write(after / "TEST-b.xml", suite("b", case("two", classname="b")))
    entries, found = read(before, after)
    assert sorted(str(entry.task_id) for entry in entries) == ["a::one", "b::two"]
    assert found.left_out == {"no_junit_files": 1}
    (sentence,) = found.unread
    assert "broken.xml is not XML" in sentence
    assert "line 1" in sentence
    globbed, _ = read([Path(f"{before}/TEST-*.xml"), Path(f"{before}/*/*.xml")], [Path(f"{after}/**/TEST-*.xml")])
    assert len(globbed) == 2


def test_two_folders_with_one_class_are_two_modules(tmp_path: Path) -> None:
    for module, failed in (("a", True), ("b", False)):
        write(tmp_path / "before" / module / "T.xml", suite("T", case("adds", failed=failed, classname="T")))
    write(tmp_path / "after" / "b" / "T.xml", suite("T", case("adds", classname="T")))
    assert read(tmp_path / "before", tmp_path / "after")[1].left_out == {"ran_elsewhere": 1}
    write(tmp_path / "after" / "a" / "T.xml", suite("T", case("adds", classname="T")))
    (entry,), _ = read(tmp_path / "before", tmp_path / "after")
    assert entry.task_id == "T::adds (a)"


def test_a_folder_that_only_numbers_a_part_of_the_run_is_no_module(tmp_path: Path) -> None:
    write(tmp_path / "before" / "shard-1" / "r.xml", suite("s", case("adds", failed=True)))
    write(tmp_path / "after" / "shard-2" / "r.xml", suite("s", case("adds")))
    assert len(read(tmp_path / "before", tmp_path / "after")[0]) == 1


def test_reports_in_the_archives_of_a_ci_are_read_without_unpacking_them(tmp_path: Path) -> None:
    before, after = suite("s", case("adds", failed=True)), suite("s", case("adds"))
    with zipfile.ZipFile(tmp_path / "before.zip", "w") as archive:
        archive.writestr("../../../reports/r.xml", before)
        archive.writestr("log.txt", "no report")
    with tarfile.open(tmp_path / "after.tar.gz", "w:gz") as packed:
        info = tarfile.TarInfo("reports/r.xml")
        info.size = len(after)
        packed.addfile(info, io.BytesIO(after.encode()))
        link = tarfile.TarInfo("reports/link.xml")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        packed.addfile(link)
    (tmp_path / "after.xml.gz").write_bytes(gzip.compress(after.encode()))
    files = sorted(tmp_path.rglob("*"))
    assert len(read(tmp_path / "before.zip", tmp_path / "after.tar.gz")[0]) == 1
    assert len(read(tmp_path / "before.zip", tmp_path / "after.xml.gz")[0]) == 1
    assert sorted(tmp_path.rglob("*")) == files


def test_an_archive_that_unpacks_to_more_than_the_limit_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report_files, "MAX_UNPACKED_BYTES", 50_000)
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("r.xml", f"<testsuite>{' ' * 200_000}</testsuite>")
    good = write(tmp_path / "good.xml", suite("s", case("adds", failed=True)))
    after = write(tmp_path / "after.xml", suite("s", case("adds")))
    entries, found = read([good, tmp_path / "bomb.zip"], after)
    assert len(entries) == 1
    assert "unpacks to more than the 50,000 bytes allowed" in found.unread[0]


@pytest.mark.parametrize(
    ("encoding", "declared"),
    [("utf-8", "utf-8"), ("utf-16", "utf-16"), ("latin-1", "iso-8859-1"), ("utf-8-sig", "utf-8")],
)
def test_control_characters_are_replaced_in_any_encoding(tmp_path: Path, encoding: str, declared: str) -> None:
    text = f'<?xml version="1.0" encoding="{declared}"?>' + suite(
        "s",
        '<testcase name="t\x01" classname="C"><failure message="failed">'
        "\x1b[31mé is &#27;[1mnot&#x1b;[0m e&#0;</failure></testcase>",
    )
    (tmp_path / "before.xml").write_bytes(text.encode(encoding))
    after = write(
        tmp_path / "after.xml", '\n \n<?xml version="1.0"?>' + suite("s", '<testcase name="t\x01" classname="C"/>')
    )
    (entry,), _ = read(tmp_path / "before.xml", after)
    assert entry.failure_description == "C::t\ufffd\né is not e\ufffd"


def test_a_reference_that_two_reads_split_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = suite(
        "s",
        '<testcase name="t" classname="C"><failure message="failed">it &#27;[31mis&#27;[0m bad</failure></testcase>',
    )
    before, after = write(tmp_path / "before.xml", text), write(tmp_path / "after.xml", suite("s", case("t")))
    monkeypatch.setattr(valid_xml, "_CHUNK_BYTES", 1)
    for size in range(1, len(text), 3):
        monkeypatch.setattr(valid_xml, "_HEAD_BYTES", size)
        (entry,), _ = read(before, after)
        assert entry.failure_description == "C::t\nit is bad"


def test_a_broken_archive_is_left_with_a_sentence(tmp_path: Path) -> None:
    good = write(tmp_path / "good.xml", suite("s", case("adds")))
    for number, content in enumerate(
        (b"PK\x03\x04", b"\x1f\x8b\x08" + bytes(7) + b"\x03" + bytes(5), b"BZh9", bytes(257) + b"ustar")
    ):
        broken = tmp_path / f"broken-{number}.zip"
        broken.write_bytes(content)
        found = read([good, broken], good)[1]
        assert len(found.unread) == 1, content
        assert str(broken) in found.unread[0]


def test_nothing_to_read_is_said_of_the_run_that_lacks_it(tmp_path: Path) -> None:
    good = write(tmp_path / "good.xml", suite("s", case("adds")))
    (tmp_path / "empty").mkdir()
    for wrong, said in (
        (tmp_path / "empty", "has no report"),
        (tmp_path / "none-*.xml", "matches no file"),
        (tmp_path / "none.xml", "none.xml cannot be read: No such file"),
    ):
        with pytest.raises(InvalidInput, match=said) as refused:
            read(good, wrong)
        assert refused.value.field == "after"


def test_more_test_cases_than_are_allowed_are_refused_with_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestrator.importers.junit_reader.MAX_CASES", 3)
    many = write(tmp_path / "many.xml", suite("s", *(f"\n{case(str(number))}" for number in range(5))))
    with pytest.raises(InvalidInput, match=r"many.xml takes the run above the 3 test cases allowed \(line \d+\)"):
        read(many, many)
