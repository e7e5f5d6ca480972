"""Chromium drives the page as an analyst and an owner do, at a desk and on a phone."""

from __future__ import annotations

import base64
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.server.web.serving import Served, password_of, policy_of_three, served

pytestmark = pytest.mark.slow
selenium = pytest.importorskip("selenium", reason="selenium drives the browser")
PROGRAMS = [shutil.which("chromium"), shutil.which("chromedriver")]
if None in PROGRAMS:
    pytest.skip("apt-get install chromium chromium-driver", allow_module_level=True)

from selenium import webdriver  # noqa: E402
from selenium.webdriver.chrome.service import Service as Driver  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402
from selenium.webdriver.support.ui import WebDriverWait  # noqa: E402

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
SCREENS = [(1280, 900, "light"), (390, 800, "dark")]
GROUPS = "SELECT dept, DP_AVG(salary, eps=0.4) AS pay FROM staff GROUP BY dept"
BINS = "SELECT DP_HISTOGRAM(age, [30, 40, 50], eps=0.4) AS ages FROM staff"
MONTHS = (
    "SELECT date_trunc('month', day) AS month, DP_COUNT(*, eps=0.2, max_rows_contributed=3) "
    "AS n FROM visits GROUP BY 1"
)


class Screen:
    """A browser with the page in it."""

    def __init__(self, driver: Any, port: int, shots: Path) -> None:
        self.driver = driver
        self._port = port
        self._shots = shots

    def one(self, css: str) -> Any:
        return self.driver.find_element(By.CSS_SELECTOR, css)

    def wait(self, what: Callable[[], object]) -> Any:
        return WebDriverWait(self.driver, 60).until(lambda _: what())

    def see(self, css: str, text: str = "") -> Any:
        """Wait until something with a text is in sight."""

        def found() -> Any:
            every = self.driver.find_elements(By.CSS_SELECTOR, css)
            return next((one for one in every if one.is_displayed() and text in one.text), None)

        ignored = (selenium.common.exceptions.StaleElementReferenceException,)
        wait = WebDriverWait(self.driver, 60, ignored_exceptions=ignored)
        return wait.until(lambda _: found(), f"{text!r} at {css}")

    def log_in(self, name: str, password: str = "") -> None:
        self.driver.get(f"http://127.0.0.1:{self._port}/")
        self.see("#login")
        self.one("[name=name]").send_keys(name)
        self.one("[name=password]").send_keys(password or password_of(name), Keys.ENTER)

    @property
    def query(self) -> Any:
        return self.one("#query")

    @property
    def text(self) -> str:
        return str(self.query.get_property("value"))

    def ask(self, text: str) -> None:
        self.query.clear()
        self.query.send_keys(text, Keys.ESCAPE)
        self.query.send_keys(Keys.CONTROL, Keys.ENTER)
        self.see("#history .link", text)
        self.wait(self.one("#send").is_enabled)

    def shoot(self, name: str) -> None:
        """Keep a picture of the whole page, and require that it is as wide as the screen."""
        run = self.driver.execute_script
        wide, high = run(
            "const e = document.documentElement; return [e.scrollWidth, e.scrollHeight]"
        )
        width = run("return window.innerWidth")
        assert wide <= width
        clip = {"x": 0, "y": 0, "width": width, "height": high, "scale": 1}
        told = {"captureBeyondViewport": True, "clip": clip}
        picture = self.driver.execute_cdp_cmd("Page.captureScreenshot", told)
        self._shots.joinpath(f"{name}.png").write_bytes(base64.b64decode(picture["data"]))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(policy_of_three(tmp_path_factory.mktemp("page"))) as server:
        yield server


@pytest.fixture(params=SCREENS, ids=lambda one: f"{one[0]}-{one[2]}")
def screen(request: pytest.FixtureRequest, server: Served, tmp_path: Path) -> Iterator[Screen]:
    width, height, colours = request.param
    options = webdriver.ChromeOptions()
    options.binary_location = str(PROGRAMS[0])
    for flag in (*FLAGS, f"--user-data-dir={tmp_path / 'profile'}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Driver(str(PROGRAMS[1])))
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 700}
    scheme = {"name": "prefers-color-scheme", "value": colours}
    try:
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
        shots = Path("/tmp") / f"dpquery-page-{width}"
        shots.mkdir(exist_ok=True)
        yield Screen(driver, server.port, shots)
        said = [line["message"] for line in driver.get_log("browser")]
        assert [line for line in said if "401" not in line] == []
    finally:
        driver.quit()


def test_an_analyst_asks_and_an_owner_looks(screen: Screen):
    screen.log_in("alice", "wrong-password")
    screen.see("#login-said", "no user has this name and password")
    screen.log_in("alice")
    screen.see("#tables summary", "staff")
    screen.see("#budget", "of 5")

    # Tab completes what is alone, or what is chosen.
    screen.query.send_keys("SELECT dept, DP_AV")
    screen.see("#offers [aria-selected=true]", "DP_AVG(")
    screen.shoot("completion")
    screen.query.send_keys(Keys.TAB, "sal", Keys.TAB)
    screen.wait(lambda: screen.text == "SELECT dept, DP_AVG(salary")
    screen.query.send_keys(", eps=0.4) AS pay FROM sta", Keys.TAB)
    screen.wait(lambda: screen.text.endswith("FROM staff"))
    screen.query.send_keys(" GROUP BY dept", Keys.ESCAPE)
    assert screen.text == GROUPS

    # The price and the expected error, before anything is sent.
    screen.see("#price", "95% within at most ±")
    screen.shoot("price")
    screen.ask(GROUPS)
    screen.see("#answer th", "noise ±")
    screen.see("#answer svg.chart")
    chart = screen.one("#answer svg.chart")
    assert chart.get_attribute("aria-label").startswith("Bars of pay by dept, with error bars")
    assert len(chart.find_elements(By.CSS_SELECTOR, ".whisker")) == 5
    screen.see("#price b", "free")
    screen.shoot("answer")
    screen.ask(GROUPS)
    screen.see("#answer .tag", "free: answered before")
    screen.see("#history .tag.free", "free: repeated")

    screen.ask(BINS)
    screen.see("#answer svg.chart rect")
    assert len(screen.driver.find_elements(By.CSS_SELECTOR, "#answer rect")) == 4
    screen.shoot("bins")

    screen.ask(MONTHS)
    screen.see("#answer svg.chart .line")
    assert len(screen.driver.find_elements(By.CSS_SELECTOR, "#answer .whisker")) == 3
    screen.shoot("dates")


def test_a_refusal_says_what_to_type(screen: Screen):
    screen.log_in("alice")
    screen.see("#tables summary", "staff")
    screen.ask(
        "SELECT dept, DP_COUNT(*, eps=0.1) AS n FROM staff WHERE agee > 30 GROUP BY dept"
    )
    assert "^^^^" in screen.see("#answer .caret").get_property("textContent")
    screen.shoot("refusal")
    screen.one("#answer .try").click()
    screen.wait(lambda: "WHERE age > 30" in screen.text)
    screen.see("#price", "costs 0.1")

    # What each statement may spend.
    screen.one("#eps").send_keys("0.05", Keys.TAB)
    screen.see("#history .link", "SET dp.eps = 0.05")
    screen.query.clear()
    screen.query.send_keys("SELECT COUNT(*) FROM staff")
    screen.see("#price", "costs 0.05")

    # Whoever does not use a mouse leaves the field by Esc and Tab.
    screen.query.send_keys(Keys.ESCAPE, Keys.TAB)
    screen.wait(lambda: screen.driver.switch_to.active_element.get_attribute("id") != "query")


def test_an_owner_looks_and_gives_orders(screen: Screen):
    screen.log_in("bella")
    screen.see("#tables summary", "staff")
    screen.ask("SELECT DP_COUNT(*, eps=0.1) FROM staff")
    screen.one("#view-owner").click()
    screen.see("#owner h2", "Analysts")
    screen.see("#owner table", "bella")
    screen.one("#logout").click()
    screen.log_in("olga")
    screen.see("#owner table", "alice")
    screen.see("#owner", "at this rate")
    screen.see("#owner svg.chart .line")
    screen.shoot("owner")
    assert not screen.one("#ask").is_displayed()
    next(
        one
        for one in screen.driver.find_elements(By.CSS_SELECTOR, "#owner button")
        if one.text == "Freeze everybody"
    ).click()
    screen.see("dialog button.main", "Yes").click()
    screen.see("#owner .tag.bad", "frozen")
    screen.see("#owner button.main", "Thaw").click()
    screen.see("dialog button.main", "Yes").click()
    screen.see("#owner [role=status]", "thawed")


def test_hostile_names_stay_texts(screen: Screen):
    screen.log_in("bob")
    screen.see("#tables summary", "staff")
    hostile = "<img src=x onerror=alert(1)><b>bold</b>"
    screen.ask(f"SELECT '{hostile}' AS \"{hostile}\", inhabitants FROM regions")
    screen.see("#answer td", hostile)
    assert (
        screen.driver.find_elements(By.CSS_SELECTOR, "main b + b, main img, td b, th b") == []
    )
    screen.ask(f'SELECT "{hostile}" FROM staff')
    screen.see("#answer .caret", hostile)
    assert screen.driver.find_elements(By.CSS_SELECTOR, "main img, pre b") == []
