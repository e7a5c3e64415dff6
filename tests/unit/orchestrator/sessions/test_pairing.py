"""Pairing of failures with what mended them: dead ends, changes and their texts, refusals and revisions."""

from __future__ import annotations

from dataclasses import replace

from orchestrator.importers.sessions.lessons.changes import MAX_BYTES, changes_of, is_of_check, render_changes
from orchestrator.importers.sessions.lessons.entries import make_entry
from orchestrator.importers.sessions.pairing import Lesson, LessonKind, Pairing, pair
from orchestrator.importers.sessions.steps import MAIN, Decider, Edit, Session, Step, StepOutcome

ROOT = "/home/dev/shop"
TYPE_ERROR = "TypeError: unsupported operand type(s) for +\n1 failed in 0.10s"
NAME_ERROR = "NameError: name 'total' is not defined\n1 failed in 0.20s"


def ran(command: str | None, exit_code: int | None = 0, text: str = "", **more: object) -> Step:
    outcome = StepOutcome.OK if exit_code == 0 else StepOutcome.FAILED
    values = {"order": 0, "id": "", "tool": "Bash", "outcome": outcome, "exit_code": exit_code, "text": text}
    return Step(command=command, **{**values, **more})  # type: ignore[arg-type]


def edited(path: str, diff: str = "@@\n-a\n+b", **more: object) -> Step:
    values = {"order": 0, "id": "", "tool": "Edit", "outcome": StepOutcome.OK, "edits": (Edit(path=path, diff=diff),)}
    return Step(**{**values, **more})  # type: ignore[arg-type]


def denied(command: str | None, reason: str, by: Decider = Decider.PERSON, **more: object) -> Step:
    values = {"outcome": StepOutcome.DENIED, "decided_by": by, "reason": reason, **more}
    return ran(command, None, **values)  # type: ignore[arg-type]


def learn(*steps: Step, named: tuple[str, ...] = ()) -> Pairing:
    numbered = [replace(step, order=number, id=str(number)) for number, step in enumerate(steps, 1)]
    return pair(Session(tool="t", session_id="s", folder=ROOT, steps=numbered), named=named)


def only(*steps: Step) -> Lesson:
    (lesson,) = learn(*steps).lessons
    return lesson


def test_a_change_after_which_the_error_stayed_is_a_dead_end_and_not_the_solution() -> None:
    lesson = only(
        ran("pytest", 1, TYPE_ERROR),
        edited(f"{ROOT}/cart.py", "@@\n-a\n+first"),
        ran("pytest", 1, TYPE_ERROR.replace("0.10s", "0.31s")),
        edited(f"{ROOT}/cart.py", "@@\n-first\n+second"),
        ran("pytest", 0, "1 passed in 0.1s"),
    )
    assert (lesson.kind, lesson.step.id) == (LessonKind.FIX, "1")
    assert lesson.solution == "cart.py:\n-first\n+second"
    assert lesson.dead_ends == ("cart.py:\n-a\n+first",)


def test_a_change_that_led_to_another_error_is_a_part_of_the_solution() -> None:
    result = learn(
        ran("pytest", 1, NAME_ERROR),
        edited("cart.py", "@@\n+import total"),
        ran("pytest", 1, TYPE_ERROR),
        edited("cart.py", "@@\n-a\n+b"),
        ran("pytest", 0, "1 passed in 0.1s"),
    )
    (lesson,) = result.lessons
    assert lesson.step.id == "3", "the last change mended this error"
    assert "+import total" in lesson.solution
    assert "+b" in lesson.solution
    assert lesson.dead_ends == ()
    assert [step.id for step in result.dropped] == ["1"]


def test_a_change_that_the_solution_replaces_is_a_dead_end_where_it_was_tested_after_it_was_made() -> None:
    attempt = edited("cart.py", "@@\n-a\n+get(a)")
    failed, passed = ran("pytest", 1, TYPE_ERROR), ran("pytest", 0, "1 passed in 0.1s")
    assert only(attempt, failed, edited("cart.py", "@@\n-get(a)\n+a or 0"), passed).dead_ends == (
        "cart.py:\n-a\n+get(a)",
    )
    for fix in (edited("cart.py", "@@\n-other\n+a or 0"), edited("shop.py", "@@\n-get(a)\n+a or 0")):
        assert only(attempt, failed, fix, passed).dead_ends == (), "it stands in what passed"
    before = (attempt, ran("pytest", 0, "1 passed in 0.1s"))
    assert only(*before, failed, edited("cart.py", "@@\n-get(a)\n+a or 0"), passed).dead_ends == (), "it had passed"


def test_a_failure_that_never_passes_keeps_what_was_tried() -> None:
    lesson = only(
        ran("pytest", 1, TYPE_ERROR), edited("cart.py"), ran("pytest", 1, TYPE_ERROR), edited("cart.py", "@@\n+c")
    )
    assert (lesson.kind, lesson.solution, lesson.dead_ends) == (LessonKind.OPEN, "", ("cart.py:\n-a\n+b",))


def test_a_test_written_before_the_feature_is_solved_by_the_feature() -> None:
    lesson = only(
        edited("tests/test_cart.py", "@@\n+def test_total(): ..."),
        ran("pytest", 1, NAME_ERROR),
        edited("cart.py", "@@\n+def total(): ..."),
        ran("pytest", 0, "1 passed in 0.1s"),
    )
    assert lesson.kind is LessonKind.FIX
    assert lesson.solution == "cart.py:\n+def total(): ..."


def test_a_check_mended_by_its_tests_or_settings_waits_for_a_person() -> None:
    for file in ("tests/test_cart.py", "conftest.py", "src/cart.spec.ts", ".eslintrc.json", "ruff.toml", "pytest.ini"):
        lesson = only(ran("pytest", 1, TYPE_ERROR), edited(file), ran("pytest", 0, "1 passed in 0.1s"))
        assert lesson.kind is LessonKind.OPEN, file
        assert lesson.solution
        assert "tests" in lesson.why_open
    both = (edited("tests/test_cart.py"), edited("cart.py"))
    assert only(ran("pytest", 1, TYPE_ERROR), *both, ran("pytest", 0, "1 passed")).kind is LessonKind.FIX


def test_installs_migrations_and_rewriting_commands_are_changes() -> None:
    for command in (
        "pip install requests",
        "npm i left-pad",
        "python manage.py migrate",
        "alembic upgrade head",
        "sed -i 's/a/b/' cart.py",
        "cat > cart.py <<'EOF'\nx = 1\nEOF",
        "ruff check --fix .",
        "git apply fix.patch",
    ):
        lesson = only(ran("pytest", 1, TYPE_ERROR), ran(command), ran("pytest", 0, "1 passed in 0.1s"))
        assert lesson.kind is LessonKind.FIX, command
        assert lesson.solution.startswith("$ "), command
    for command in ("git stash", "ls", "pip list", "echo a > /dev/null", "cat cart.py", "pip install nothing"):
        code = 1 if command == "pip install nothing" else 0
        assert learn(ran("pytest", 1, TYPE_ERROR), ran(command, code), ran("pytest", 0, "1 passed")).lessons == (), (
            command
        )


def test_a_command_that_changes_something_can_be_typed_again_as_it_is_told() -> None:
    for command in (
        """sed -i 's/item\\["price"\\] for/(item["price"] or 0) for/' cart.py""",
        "rm build/*.o",
        "pip install $EXTRA 'requests>2'",
    ):
        lesson = only(ran("pytest", 1, TYPE_ERROR), ran(command), ran("pytest", 0, "1 passed in 0.1s"))
        assert lesson.solution == f"$ {command}"


def test_an_install_in_the_line_of_the_check_is_a_change_too() -> None:
    lesson = only(ran("pytest", 1, TYPE_ERROR), ran("pip install requests && pytest", 0, "1 passed in 0.1s"))
    assert (lesson.kind, lesson.solution) == (LessonKind.FIX, "$ pip install requests")


def test_a_setting_makes_a_command_a_check() -> None:
    steps = (ran("just verify", 1, "wrong"), edited("cart.py"), ran("just verify"))
    assert learn(*steps).lessons == ()
    assert [each.kind for each in learn(*steps, named=("just verify",)).lessons] == [LessonKind.FIX]


def test_text_from_outside_marks_what_is_learned_after_it() -> None:
    page = ran("x", tool="WebFetch", is_outside=True)
    steps = (ran("pytest", 1, TYPE_ERROR), edited("cart.py"), ran("pytest", 0, "1 passed"))
    assert not only(*steps, page).is_outside
    assert only(page, *steps).is_outside


def test_the_next_accepted_call_towards_the_same_aim_is_the_revision() -> None:
    rejected = only(denied("rm cart.py", "keep it in attic/"), ran("ls"), ran("mv cart.py attic/cart.py"))
    assert rejected.solution == "mv cart.py attic/cart.py"
    assert only(denied("rm cart.py", "keep it"), ran("mv other.py attic/other.py")).solution == ""
    assert only(denied("rm cart.py", "keep it"), ran("rm cart.py")).solution == "", "the person thought better of it"
    edit = (Edit(path="cart.py", diff="@@\n+x"),)
    refused = denied(None, "no floats", tool="Edit", edits=edit)
    assert only(refused, edited("cart.py", "@@\n+Decimal")).solution == "cart.py:\n+Decimal"
    planned = denied(None, "smaller steps", tool="ExitPlanMode", proposal="rewrite all")
    accepted = ran(None, tool="ExitPlanMode", proposal="one module first")
    assert only(planned, accepted).solution == "one module first"


def test_a_persons_refusal_without_a_word_teaches_by_what_was_accepted_then() -> None:
    steps = (denied("rm cart.py", ""), ran("ls"), ran("mv cart.py attic/cart.py"))
    (lesson,) = learn(*steps).lessons
    assert (lesson.kind, lesson.solution) == (LessonKind.REJECTION, "mv cart.py attic/cart.py")
    entry = make_entry(lesson, Session(tool="t", session_id="s"), project="p").entry
    assert (entry.human_feedback, entry.revision_approach) == (
        "refused by a person without a word",
        "mv cart.py attic/cart.py",
    )
    for decider in (Decider.RULE, Decider.NOBODY):
        assert learn(denied("rm cart.py", "", decider), *steps[1:]).lessons == (), "it may be the way around a guard"


def test_refusals_without_a_word_or_with_nobody_there_teach_nothing() -> None:
    result = learn(
        denied("rm a", ""), denied("rm b", "needs approval", Decider.NOBODY), denied("rm c", "no"), denied("rm c", "no")
    )
    assert [each.step.reason for each in result.lessons] == ["no"]
    assert result.left_out.total() == 3


def test_agents_that_work_beside_each_other_do_not_mend_each_others_failures() -> None:
    def by(agent: str, step: Step) -> Step:
        return replace(step, agent=agent, parent=MAIN)

    result = learn(
        by("a", ran("pytest", 1, TYPE_ERROR)),
        by("b", ran("pytest", 1, TYPE_ERROR)),
        by("a", edited("cart.py", "@@\n+a")),
        by("b", ran("pytest", 0, "1 passed in 0.1s")),
        by("a", ran("pytest", 0, "1 passed in 0.1s")),
    )
    assert [(each.step.agent, each.solution) for each in result.lessons] == [("a", "cart.py:\n+a")]


def test_a_solution_is_a_few_kilobytes_with_one_line_around_each_change() -> None:
    header = "Index: cart.py\n=====\n--- cart.py\tCurrent\n+++ cart.py\tProposed\n"
    diff = f"{header}@@ -1,5 +1,5 @@\n a\n b\n-c\n+C\n d\n e\n\\ No newline"
    (change,) = changes_of(replace(edited(f"{ROOT}/src/cart.py", diff), id="1"), root=ROOT)
    assert change.text == "src/cart.py:\n b\n-c\n+C\n d"
    many = [replace(change, text=f"f{number}.py:\n+{'x' * 500}", order=number) for number in range(20)]
    rendered = render_changes(many)
    assert len(rendered.encode()) <= MAX_BYTES
    assert "f19.py" in rendered, "the last changes count most"
    assert len(render_changes([replace(change, text="é" * 9000)]).encode()) <= MAX_BYTES


def test_tests_are_known_by_their_paths() -> None:
    for file in ("tests/a.py", "src/__tests__/a.js", "a_test.go", "CartTest.java", "a.spec.ts", "test_a.py"):
        assert is_of_check(file), file
    for file in ("src/contest.py", "latest.py", "src/attestation/a.py", "testing.md.py", "cart.py"):
        assert not is_of_check(file), file
