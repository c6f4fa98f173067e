"""What people do with the console, in a real browser."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pytest

from omnigraph.graph.handle import Graph
from omnigraph_testing.console_process import HOSTILE, Visit

pytestmark = [pytest.mark.xdist_group("console"), pytest.mark.timeout(300)]


def button(page: Any, name: str) -> Any:
    return page.get_by_role("button", name=name, exact=True)


def write(page: Any, label: str, text: str) -> None:
    """Replace the text of an editor, as a person types it."""
    editor = page.locator(f"[aria-label='{label}'] .cm-content, .cm-content").first
    editor.click()
    page.keyboard.press("Control+a")
    page.keyboard.press("Delete")
    page.keyboard.insert_text(text)


def test_the_overview_follows_the_graph(visit: Visit, people: Graph, pictures: Path) -> None:
    people.branches.create("watched")
    people.mutate('insert Company { name: "Ahead" }', branch="watched")
    with visit("/") as page:
        page.locator("[data-count=Person]").get_by_text("301").wait_for()
        page.get_by_text("1 ahead, 0 behind").first.wait_for()
        page.get_by_text("Storage").wait_for()
        assert HOSTILE in page.get_by_text("people <img").first.inner_text()
        page.screenshot(path=pictures / "overview.png")
        people.mutate('insert Company { name: "New" }')
        page.locator("[data-count=Company]").get_by_text("2").wait_for()


def test_an_entity_is_found_and_its_neighbours_are_drawn(
    visit: Visit, people: Graph, pictures: Path
) -> None:
    people.mutate('update Person set { age: 77 } where name = "p0"', message="older")
    with visit("/explore") as page:
        page.get_by_text("30 found").wait_for()
        page.get_by_label("How").click()
        page.get_by_role("option", name="by key").click()
        page.get_by_label("Find").fill("p0")
        page.keyboard.press("Enter")
        page.get_by_text("1 found").wait_for()
        button(page, "p0").click()
        page.get_by_text("number 0 likes graphs").wait_for()
        page.get_by_role("button", name="-Knows→ Person (40)").click()
        page.get_by_text("41 entities, 40 edges").wait_for()
        page.get_by_role("button", name="-WorksAt→ Company (1)").click()
        page.get_by_text("42 entities, 41 edges").wait_for()
        button(page, "History").click()
        page.get_by_text("age: 0 → 77").wait_for()
        page.screenshot(path=pictures / "explore.png")
        page.get_by_role("link", name="insert by ada").click()
        page.get_by_text("main at 01").wait_for()
        page.get_by_text("Person p0").wait_for()
        assert page.get_by_text("77", exact=True).count() == 0


def test_hostile_text_stays_text(visit: Visit, people: Graph) -> None:
    people.branches.create("hostile")
    people.mutate(
        'update Person set { age: 2 } where status = "left"', branch="hostile", message=HOSTILE
    )
    with visit("/explore?type=Person") as page:
        page.get_by_label("How").click()
        page.get_by_role("option", name="by key").click()
        page.get_by_label("Find").fill(HOSTILE)
        page.keyboard.press("Enter")
        page.get_by_text("1 found").wait_for()
        button(page, HOSTILE).click()
        page.get_by_text(f"Person {HOSTILE}").wait_for()
        page.goto(page.url.split("/explore")[0] + "/review?source=hostile")
        page.get_by_text(f"~ Person {HOSTILE}").wait_for()
        page.get_by_text(HOSTILE, exact=True).first.wait_for()
        assert page.locator("img[src=x]").count() == 0


def test_a_query_is_written_run_and_taken_home(visit: Visit, pictures: Path) -> None:
    with visit("/query") as page:
        write(page, "Query text", "match { $p: Persn } return { $p.name }")
        page.get_by_test_id("problem").get_by_text("Persn").wait_for()
        page.locator(".og-error").first.wait_for()
        write(
            page,
            "Query text",
            "query old($least: I32) { match { $p: Person $p.age >= $least } "
            "return { $p.name as name, $p.age as age } order { age desc } }",
        )
        page.locator("[data-param=least]").fill("50")
        button(page, "Run").click()
        page.get_by_test_id("answer").get_by_text("rows in").wait_for()
        assert page.get_by_text("rows 1 to 100 of 12").count() == 1
        button(page, "Later rows").click()
        page.get_by_text("rows 101 to").wait_for()
        page.screenshot(path=pictures / "query.png")
        with page.expect_download() as download:
            button(page, "CSV").click()
        rows = list(csv.DictReader(io.StringIO(Path(download.value.path()).read_text())))
        assert len(rows) > 100
        assert all(int(row["age"]) >= 50 for row in rows)
        page.get_by_role("tab", name="Chart").click()
        page.locator("canvas").first.wait_for()
        button(page, "Profile").click()
        page.get_by_text("ms in all").wait_for()
        page.get_by_text("NodeScan").wait_for()


def test_a_large_answer_is_paged(visit: Visit) -> None:
    with visit("/query") as page:
        text = "match { $a: Person $b: Person } return { $a.name as a, $b.name as b }"
        write(page, "Query text", text)
        button(page, "Run").click()
        page.get_by_text("rows 1 to 100 of 90,601").wait_for()
        assert page.locator("tbody tr").count() == 100


def test_a_branch_is_reviewed_and_merged(visit: Visit, people: Graph, pictures: Path) -> None:
    people.branches.create("review")
    bob, eve = people.as_actor("bob"), people.as_actor("eve")
    bob.mutate('update Person set { age: 33 } where name = "p10"', branch="review")
    eve.mutate('insert Company { name: "Eves" }', branch="review")
    people.mutate('update Person set { age: 44 } where name = "p10"')
    with visit("/review?source=review") as page:
        page.get_by_text("2 commits, 2 changes").wait_for()
        page.get_by_text("~ Person p10").wait_for()
        page.get_by_label("Author").click()
        page.get_by_role("option", name="eve").click()
        page.get_by_text("2 commits, 1 changes").wait_for()
        page.get_by_text("+ Company Eves").wait_for()
        page.get_by_label("Comment").fill("looks right")
        button(page, "Merge").click()
        page.get_by_text("Decide each of them").wait_for()
        page.screenshot(path=pictures / "review.png")
        page.get_by_role("radio", name="another value").click()
        page.get_by_label("Value as JSON").fill("55")
        button(page, "Merge").click()
        page.get_by_text("review into main: merged").wait_for()
    head = people.commits.list(limit=1)[0]
    assert (head.message, head.actor_id) == ("looks right", "viewer")
    found = people.query('match { $p: Person $p.name = "p10" } return { $p.age as age }')
    assert found.to_pylist() == [{"age": 55}]


def test_a_commit_is_reverted(visit: Visit, people: Graph) -> None:
    people.branches.create("undo")
    people.mutate('update Person set { age: 99 } where name = "p20"', branch="undo")
    with visit("/review?source=undo") as page:
        page.get_by_text("~ Person p20").wait_for()
        button(page, "Revert").first.click()
        page.get_by_text("Reverted on undo.").wait_for()
    text = 'match { $p: Person $p.name = "p20" } return { $p.age as age }'
    assert people.query(text, branch="undo").to_pylist() == [{"age": 20}]


def test_a_file_is_checked_and_loaded(
    visit: Visit, people: Graph, tmp_path: Path, pictures: Path
) -> None:
    bad, good = tmp_path / "Person.csv", tmp_path / "good" / "Person.csv"
    good.parent.mkdir()
    bad.write_text("name,age\nnew1,12\nnew2,400\n")
    good.write_text("name,age\nnew1,12\nnew2,40\n")
    with visit("/data") as page:
        page.get_by_label("New branch").fill("incoming")
        page.locator("input[type=file]").set_input_files(bad)
        page.get_by_text("outside 0..150").first.wait_for()
        assert button(page, "Load into the branch").is_disabled()
        page.locator("input[type=file]").set_input_files(good)
        page.get_by_text("The checks passed").wait_for()
        page.screenshot(path=pictures / "upload.png")
        button(page, "Load into the branch").click()
        page.get_by_text("Loaded into incoming").wait_for()
    assert len(people.diff(base="main", branch="incoming")) == 2


def test_an_entity_is_edited(visit: Visit, people: Graph) -> None:
    with visit("/data?type=Person&id=p30") as page:
        page.locator("[data-field=age]").fill("many")
        button(page, "Save").click()
        page.get_by_text("'many' is no I32").wait_for()
        page.locator("[data-field=age]").fill("31")
        button(page, "Save").click()
        page.get_by_text("Saved on main.").wait_for()
    text = 'match { $p: Person $p.name = "p30" } return { $p.age as age, $p.bio as bio }'
    assert people.query(text).to_pylist() == [{"age": 31, "bio": "number 30 likes graphs"}]


def test_the_schema_is_planned_and_changed(visit: Visit, people: Graph, pictures: Path) -> None:
    people.branches.create("shape")
    source = people.schema.show("shape").source
    with visit("/data?branch=shape") as page:
        page.get_by_role("tab", name="Schema").click()
        write(page, "Schema text", source.replace("age: I32?", "age: I32?\n  city: String?"))
        button(page, "Plan").click()
        page.get_by_text("It can be applied.").wait_for()
        page.screenshot(path=pictures / "schema.png")
        button(page, "Apply").click()
        page.get_by_text("The schema of shape is changed.").wait_for()
    assert "city" in people.schema.show("shape").source


def test_a_hostile_file_name_stays_text(visit: Visit, tmp_path: Path) -> None:
    odd = tmp_path / '<img src=x onerror="alert(2)">.txt'
    odd.write_text("name\nx\n")
    with visit("/data") as page:
        page.locator("input[type=file]").set_input_files(odd)
        page.get_by_test_id("upload-text").get_by_text("<img src=x").wait_for()
        assert page.locator("img[src=x]").count() == 0


def test_a_long_query_is_cancelled(visit: Visit) -> None:
    with visit("/query") as page:
        people = " ".join(f"$p{i}: Person" for i in range(4))
        write(page, "Query text", f"match {{ {people} }} return {{ count($p0) as number }}")
        button(page, "Run").click()
        button(page, "Cancel").click()
        page.get_by_test_id("answer").get_by_text("cancelled").wait_for()


def test_a_commit_is_picked_and_an_older_state_is_seen(visit: Visit, people: Graph) -> None:
    people.branches.create("picked")
    people.branches.create("onto")
    people.mutate('update Person set { age: 61 } where name = "p50"', branch="picked")
    people.mutate('update Person set { age: 62 } where name = "p51"', branch="picked")
    with visit("/review?source=picked") as page:
        page.get_by_label("Merge into").click()
        page.get_by_role("option", name="onto").click()
        page.get_by_text("2 commits, 2 changes").wait_for()
        button(page, "Cherry-pick").first.click()
        page.get_by_text("Made again on onto.").wait_for()
        page.get_by_role("button", name="Branch", exact=True).click()
        newest = page.get_by_test_id("commit").inner_text()
        page.get_by_role("slider", name="Time travel").locator("[tabindex]").focus()
        page.keyboard.press("ArrowLeft")
        page.get_by_test_id("commit").filter(has_not_text=newest).wait_for()
        button(page, "Go to this commit").click()
        page.get_by_test_id("place").get_by_text("main at 01").wait_for()
    text = 'match { $p: Person $p.name in ["p50", "p51"] } return { $p.age as age }'
    assert people.query(text, branch="onto").to_pylist() == [{"age": 50}, {"age": 62}]


def test_it_works_on_a_phone_in_the_dark(visit: Visit, pictures: Path) -> None:
    contents = {
        "Explore": lambda page: page.get_by_text("30 found"),
        "Query": lambda page: button(page, "Run"),
        "Review": lambda page: button(page, "Show changes").first,
        "Data": lambda page: page.get_by_text("NDJSON, CSV or Parquet"),
        "Overview": lambda page: page.get_by_text("Health and upkeep"),
    }
    with visit("/", width=390, color_scheme="dark") as page:
        page.locator("[data-count=Person]").wait_for()
        assert "body--dark" in page.locator("body").get_attribute("class")
        for name, content in contents.items():
            page.get_by_role("link", name=name, exact=True).click()
            content(page).wait_for()
            assert page.evaluate("document.documentElement.scrollWidth") <= 390, name
        page.screenshot(path=pictures / "phone.png")


def test_it_works_by_keyboard(visit: Visit) -> None:
    with visit("/query") as page:
        write(page, "Query text", "match { $c: Company } return { count($c) as number }")
        page.keyboard.press("Control+Enter")
        page.get_by_test_id("answer").get_by_text("1 rows in").wait_for()
