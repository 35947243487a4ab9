"""The page in a browser: typed into, languages chosen, alternatives read; nothing leaves the machine."""

from collections.abc import Iterator
from pathlib import Path

import axe
import pytest
from browser import needs_browser
from live_browser import Page, chromium
from translation_server import ServedModels, serving

import cclm

pytestmark = needs_browser
READY = "document.querySelector('#source').options.length > 0"
DONE = "document.querySelector('#status').textContent.includes(' ms') && !document.querySelector('.stale')"
SHOWN = "[...document.querySelectorAll('.translation')].map((one) => one.textContent)"


@pytest.fixture(scope="module")
def browser() -> Iterator[Page]:
    with chromium() as page:
        yield page


@pytest.fixture
def page(browser: Page) -> Iterator[Page]:
    """The browser, which must not complain, nor ask anybody else than the service."""
    browser.console.clear()
    browser.requests.clear()
    browser.look()
    yield browser
    browser.run("true")  # what it still has to say
    assert browser.console == []
    assert all(address.startswith(("http://127.0.0.1:", "about:")) for address in browser.requests)
    browser.open("about:blank")


@pytest.fixture(scope="module")
def service(both_ways: Path, into_english: Path) -> Iterator[ServedModels]:
    with serving(both_ways, into_english) as found:
        yield found


def choose(page: Page, name: str, value: str) -> None:
    """Chooses an option as a reader does: the page gets an event."""
    chosen = f"const one = document.querySelector('#{name}'); one.value = '{value}'"
    page.run(f"(() => {{ {chosen}; one.dispatchEvent(new Event('change', {{bubbles: true}})) }})()")


def typed(page: Page, text: str) -> None:
    page.click("#text")
    page.type(text)
    page.wait("document.querySelector('#translations').classList.contains('stale') || " + DONE)
    page.wait(DONE)


def test_a_reader_types_chooses_and_reads(page: Page, service: ServedModels, both_ways: Path) -> None:
    page.open(f"{service.address}/#source=aze&target=eng")
    page.wait(READY)
    model = cclm.load(both_ways)
    typed(page, "su ev.\n\ndaş")
    best = model.translate(["su ev.", "daş"], "aze", "eng")
    assert page.run(SHOWN) == [f"{best[0]}\n\n{best[1]}"]
    assert "2 sentences, " in page.text
    page.click("summary")
    spans = "[...one.children].map((part) => part.textContent)"
    rows = page.run(f"[...document.querySelectorAll('.hypotheses li')].map((one) => {spans})")
    assert rows[0][0] == (best[0] or "(nothing)")
    assert all(score.startswith("−") for _, score in rows)
    assert "su ev." in page.text  # the sentence that the alternatives belong to
    choose(page, "source", "eng")
    page.wait("document.querySelectorAll('.card').length === 4")
    assert page.run("document.querySelector('#target').selectedOptions[0].text") == "All 4 languages"
    names = page.run("[...document.querySelectorAll('.card h2')].map((one) => one.textContent)")
    assert names == ["Azerbaijani", "Galician", "Portuguese", "Turkish"]
    expected = [model.translate(["su ev.", "daş"], "eng", code) for code in ("aze", "glg", "por", "tur")]
    assert page.run(SHOWN) == [f"{one[0]}\n\n{one[1]}" for one in expected]
    choose(page, "target", "glg")
    page.wait("document.querySelectorAll('.card').length === 1")
    page.wait(f"{SHOWN}[0] === {expected[1][0] + chr(10) * 2 + expected[1][1]!r}")
    assert "source=eng&target=glg" in page.run("location.hash")


def test_languages_are_swapped_and_zero_shot_pairs_are_marked(page: Page, service: ServedModels) -> None:
    page.open(f"{service.address}/#source=aze&target=tur")
    page.wait(READY)
    options = page.run("[...document.querySelector('#target').options].map((one) => one.text)")
    assert options == [
        "All 4 languages",
        "English",
        "Galician (zero-shot)",
        "Portuguese (zero-shot)",
        "Turkish (zero-shot)",
    ]
    choose(page, "target", "*")
    typed(page, "su")
    page.wait("document.querySelectorAll('.zero-shot').length === 3")
    choose(page, "target", "eng")
    page.wait("document.querySelectorAll('.card').length === 1 && " + DONE)
    before = page.run(SHOWN)[0]
    page.click("#swap")
    page.wait("document.querySelector('#source').value === 'eng' && document.querySelector('#target').value === 'aze'")
    assert page.run("document.querySelector('#text').value") == before or before == ""
    page.click("#clear")
    page.wait("document.querySelectorAll('.card').length === 0")
    assert page.run("document.activeElement.id") == "text"


def test_another_model_has_other_languages(page: Page, service: ServedModels, into_english: Path) -> None:
    page.open(service.address)
    page.wait(READY)
    typed(page, "su ev")
    choose(page, "model", "into-english")
    page.wait("document.querySelector('#target').options.length === 1")
    choose(page, "source", "glg")
    expected = cclm.load(into_english).translate(["su ev"], "glg")[0]
    page.wait(f"{SHOWN}[0] === {expected!r} && {DONE}")
    assert page.run("document.querySelector('#swap').hidden")


def test_only_the_last_text_is_shown_and_few_are_sent(page: Page, service: ServedModels, both_ways: Path) -> None:
    page.open(f"{service.address}/#source=aze&target=eng")
    page.wait(READY)
    page.click("#text")
    page.requests.clear()
    for letter in "su ev yol gün":
        page.type(letter)
    page.wait(f"{DONE} && document.querySelector('#text').value === 'su ev yol gün'")
    sent = [address for address in page.requests if address.endswith("/api/translate")]
    assert 1 <= len(sent) < 10  # debounced: not one per letter
    # An old answer that comes late changes nothing.
    page.run("""(() => { const ask = window.fetch; let number = 0; window.fetch = async (...request) => {
        const mine = number++; const answer = await ask(request[0], {...request[1], signal: undefined});
        if (mine === 0) await new Promise((go) => setTimeout(go, 1500)); return answer } })()""")
    choose(page, "target", "*")
    choose(page, "target", "eng")
    page.wait(DONE)
    page.run("new Promise((go) => setTimeout(go, 1800))")
    assert page.run(SHOWN) == cclm.load(both_ways).translate(["su ev yol gün"], "aze", "eng")


def test_problems_are_told_in_words(page: Page, both_ways: Path) -> None:
    with serving(both_ways, characters=20) as found:
        page.open(f"{found.address}/#source=aze&target=eng")
        page.wait(READY)
        page.click("#text")
        page.type("su " * 10)
        page.wait("document.querySelector('#status').className === 'problem'")
        assert "the text has 30 characters; at most 20 at once" in page.text
        assert "30 of 20 characters" in page.text
    page.run("document.querySelector('#text').value = ''")
    page.click("#text")
    page.type("su")
    page.wait("document.querySelector('#status').textContent.includes('does not answer')")
    said = [line for line in page.console if "413" not in line and "ERR_CONNECTION_REFUSED" not in line]
    page.console[:] = said  # the browser itself notes failed requests


def test_hostile_text_stays_text(page: Page, service: ServedModels) -> None:
    page.open(f"{service.address}/#source=aze&target=eng&model=<img src=x onerror=alert(1)>")
    page.wait(READY)
    typed(page, "<img src=x onerror=window.evil=1>\n</textarea><script>window.evil=1</script>")
    page.click("summary")
    assert page.run("document.querySelectorAll('main img, main script').length") == 0
    assert page.run("window.evil === undefined")


@pytest.mark.parametrize("dark", [False, True])
def test_axe_finds_no_serious_problem(page: Page, service: ServedModels, dark: bool) -> None:
    page.look(dark=dark)
    page.open(f"{service.address}/#source=eng&target=*")
    page.wait(READY)
    typed(page, "su ev. Yol gün?")
    page.click("summary")
    assert axe.problems(page) == []
    page.open(f"{service.address}/docs")
    assert axe.problems(page) == []


@pytest.mark.parametrize("width", [320, 390, 800, 1600])
def test_it_fits_every_window(page: Page, service: ServedModels, width: int) -> None:
    page.look(width=width, height=800, phone=width < 500)
    page.open(f"{service.address}/#source=eng&target=*")
    page.wait(READY)
    typed(page, "su ev " * 10 + "x" * 80)
    page.click("summary")
    for path in ("", "/docs"):
        if path:
            page.open(service.address + path)
        assert page.run("document.documentElement.scrollWidth <= document.documentElement.clientWidth")


def test_it_can_be_used_with_the_keyboard_alone(page: Page, service: ServedModels) -> None:
    page.open(f"{service.address}/#source=aze&target=eng")
    page.wait(READY)
    assert page.run("document.activeElement.id") == "text"
    page.type("su")
    page.wait(DONE)
    reached = []
    for _ in range(6):
        page.press("Tab")
        reached.append(
            page.run("document.activeElement.id || document.activeElement.className || document.activeElement.tagName")
        )
    assert reached[:3] == ["clear", "target", "SUMMARY"]
    assert "copy" in reached
