"""Any of some thousand live jobs is found, over a real store; a process has one store open at a time, so it has a file of its own."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import expect

from loadtest import board_store
from sinks.clickhouse import ClickHouseStore, Embedded
from tests.page.conftest import Open
from tests.page.real import serving_page


def test_any_of_some_thousand_jobs_is_found(tmp_path: Path, opened: Open) -> None:
    """By its id, by its node, and page by page; what the page says is what the list of the API says."""
    jobs = 3_000
    store = ClickHouseStore(Embedded(data_dir=tmp_path / "meter"))
    try:
        board_store.fill(store, jobs, ended=50, minutes=2, hours=1)
        with serving_page(store, wall_ms=board_store.AS_OF_MS) as url:
            page = opened(url).page
            count, links = page.locator("#count"), page.locator(".jobs-table tbody .job-link")
            expect(count).to_contain_text(f"{jobs:,} of {jobs:,} live jobs, in ", timeout=30_000)
            search = page.get_by_role("searchbox")
            for number in (1, 1_501, 2_999):
                search.fill(board_store.name_of(number))
                expect(count).to_have_text(f"1 of {jobs:,} live jobs", timeout=20_000)
                expect(links).to_have_text([board_store.name_of(number)])
                search.fill(board_store.node_of(number))
                expect(page.locator(".found")).to_have_text(
                    f"on {board_store.node_of(number)}", timeout=20_000
                )
                expect(links).to_have_text([board_store.name_of(number)])
            search.fill("")
            page.get_by_label("Group sweeps").uncheck()
            pager = page.get_by_role("navigation", name="Pages of the list")
            expect(pager).to_contain_text(f"Rows 1 to 50 of {jobs:,}", timeout=20_000)
            first = links.all_text_contents()
            pager.get_by_role("link", name="Next").click()
            expect(pager).to_contain_text("Rows 51 to 100", timeout=20_000)
            listed = page.request.get(f"{url}/api/v1/jobs?state=live&limit=100").json()
            assert first + links.all_text_contents() == [job["job_id"] for job in listed["jobs"]]
            assert len(page.locator(".jobs-table tbody tr").all()) == 50, "the page holds no more"
    finally:
        store.close()
