"""The console of a server: viewers sign in, and each sees what the token of that viewer allows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from omnigraph.graph.open import init
from omnigraph_testing.console_process import clean_page
from omnigraph_testing.http_server import ProcessServer

pytestmark = [pytest.mark.xdist_group("console"), pytest.mark.timeout(300)]

SCHEMA = "node Person { name: String @key  team: String  salary: I64? }\n"
POLICY = """
version: 1
groups: {boss: [ada], staff: [bob]}
rules:
  - id: boss
    allow: {actors: {group: boss}, actions: [read, export, change, branch_create, branch_merge]}
  - id: staff
    allow:
      actors: {group: staff}
      actions: [read]
      properties: {Person: [name, team]}
      where: {Person: 'team = "red"'}
"""


def sign_in(page: Any, url: str, token: str) -> None:
    page.goto(f"{url}/console/")
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Sign in").click()


def test_two_viewers_see_what_their_rules_allow(browser: Any, tmp_path: Path) -> None:
    graph = init(tmp_path / "g.omni", SCHEMA)
    people = [
        {"name": "Red", "team": "red", "salary": 111222},
        {"name": "Blue", "team": "blue", "salary": 333444},
    ]
    graph.load({"Person": people})
    graph.close()
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    tokens = tmp_path / "tokens.json"
    tokens.write_text(json.dumps({"ada": "token-of-ada", "bob": "token-of-bob"}))
    environment = {"OMNIGRAPH_SERVER_BEARER_TOKENS_FILE": str(tokens)}
    arguments = (str(tmp_path / "g.omni"), "--console", "--policy", str(policy))
    with ProcessServer(*arguments, environment=environment, log=tmp_path / "log") as server:
        with clean_page(browser, server.url) as page:
            sign_in(page, server.url, "wrong")
            page.get_by_test_id("why").get_by_text("token").wait_for()
            sign_in(page, server.url, "token-of-ada")
            page.locator("[data-count=Person]").get_by_text("2").wait_for()
            page.goto(f"{server.url}/console/explore?type=Person&id=Blue")
            page.get_by_text("333444").wait_for()
        with clean_page(browser, server.url) as page:
            sign_in(page, server.url, "token-of-bob")
            page.locator("[data-count=Person]").get_by_text("–").wait_for()
            page.goto(f"{server.url}/console/explore?type=Person")
            page.get_by_role("button", name="Red", exact=True).click()
            page.get_by_text("Person Red").wait_for()
            assert page.get_by_text("Blue").count() == 0
            assert page.get_by_text("salary").count() == 0
            page.goto(f"{server.url}/console/data?type=Person&id=Red")
            page.locator("[data-field=team]").fill("blue")
            page.get_by_role("button", name="Save").click()
            page.get_by_text("may not").or_(page.get_by_text("denied")).first.wait_for()
            # The token is taken away while the page is open.
            tokens.write_text(json.dumps({"ada": "token-of-ada"}))
            assert server.process is not None
            server.process.send_signal(1)
            page.goto(f"{server.url}/console/explore?type=Person")
            page.get_by_test_id("why").get_by_text("token").wait_for()
