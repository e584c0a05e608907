# browser.py LINK FOLDER views [PICTURES]: opens the dashboard of a made state folder in a real browser, as a person
# does: lists, a curve that grows, values by the arrow keys, a stop that is refused, each view in light and dark and on
# a phone. With a folder for pictures, takes one of each view.
# browser.py LINK FOLDER stop: pauses the job of a server from the page, lets it go on, and stops it.
import sys
import time

from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

VIEWS = ["jobs", "jobs/5", "jobs/2", "timeline", "runs", "sweeps", "sweeps/digits_sweep", "models", "models/digits",
         "models/digits/2", "routes", "compare"]
SIZES = {"desk": (1280, 860), "phone": (390, 844)}
link = sys.argv[1]
pictures = sys.argv[4] if len(sys.argv) > 4 else None


def until(what, condition, seconds=20):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            got = condition()
        except StaleElementReferenceException:
            got = None
        if got:
            return got
        time.sleep(0.05)
    sys.exit(f"after {seconds} s still not: {what}\n{browser.find_element(By.TAG_NAME, 'body').text}")


def one(selector):
    return (browser.find_elements(By.CSS_SELECTOR, selector) or [None])[0]


def text(selector):
    it = one(selector)
    return it.text if it else ""


def go(view):
    browser.execute_script("location.hash = '#/' + arguments[0]", view)


def size(kind, height=None):
    width, usual = SIZES[kind]
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
        "width": width, "height": height or usual, "deviceScaleFactor": 1, "mobile": kind == "phone"})


def press(title):
    for button in browser.find_elements(By.CSS_SELECTOR, "main button, dialog button"):
        if button.text == title:
            button.click()
            return
    sys.exit(f"there is no button {title}")


def look_at_lists():
    until("five jobs", lambda: len(browser.find_elements(By.CSS_SELECTOR, "main tbody tr")) == 5)
    assert text("h1") == "Jobs", text("h1")
    press("Failed")
    until("the one that failed", lambda: len(browser.find_elements(By.CSS_SELECTOR, "main tbody tr")) == 1)
    assert "<script>alert(1)</script>" in text("main tbody"), "text is shown as it is"
    press("All")
    until("all again", lambda: len(browser.find_elements(By.CSS_SELECTOR, "main tbody tr")) == 5)
    for box in browser.find_elements(By.CSS_SELECTOR, "main [data-compare]")[:3]:
        box.click()
    assert text("#nav small") == "3", "three are chosen for comparison"


def look_at_a_live_curve():
    go("jobs/5")
    line = lambda: one("figure .line").get_attribute("d") if one("figure .line") else ""
    until("a curve", lambda: line().count("L") > 50)
    before = line().count("L")
    until("a curve that grows", lambda: line().count("L") > before + 2)
    plot = one("figure .plot")
    plot.send_keys(Keys.END)
    until("a value by the keyboard", lambda: "report" in text("figure .tip"))
    plot.send_keys(Keys.ESCAPE)
    assert not one("figure .tip").is_displayed(), "Escape takes it away"
    until("output", lambda: "rows/s" in text("pre.log"))
    press("Log")
    until("a logarithmic curve", lambda: one("[data-value=log]").get_attribute("aria-pressed") == "true")


def ask_for_a_stop():
    press("Stop\u2026")
    until("a question", lambda: one("dialog[open]"))
    assert browser.switch_to.active_element.text == "Cancel", "what destroys nothing has the focus"
    press("Stop the job")
    until("why not", lambda: "no train server runs" in text("dialog .problem"))
    press("Cancel")
    until("no dialog", lambda: not one("dialog[open]"))


def stop_a_job():
    until("a server", lambda: "Server up" in text("#server"))
    go("jobs/1")
    until("a job that runs", lambda: text(".titled .badge") == "Running")
    line = lambda: one("figure .line").get_attribute("d") if one("figure .line") else ""
    until("a curve", lambda: line().count("L") > 3)
    before = line().count("L")
    until("a curve that grows", lambda: line().count("L") > before + 5)
    for button, answer, state in [("Pause\u2026", "Pause the job", "Paused"), ("Go on\u2026", "Go on", "Running")]:
        press(button)
        until("a question", lambda: one("dialog[open]"))
        press(answer)
        until(f"a job that is {state}", lambda: text(".titled .badge") == state)
        until("no dialog", lambda: not one("dialog[open]"))
    press("Stop\u2026")
    until("a question", lambda: one("dialog[open]"))
    press("Stop the job")
    until("a job that was stopped", lambda: text(".titled .badge") == "Stopped")
    assert not one("dialog[open]") and not one("[data-act=stop]"), "nothing is left to be stopped"


def figure(title):
    for it in browser.find_elements(By.CSS_SELECTOR, "figure"):
        if it.find_element(By.TAG_NAME, "b").text == title:
            return it
    return None


def look_at_gpus():
    for view, titles in [("jobs/2", ["GPUs busy", "GPU memory"]), ("timeline", ["GPUs busy", "GPU memory in use"])]:
        go(view)
        for title in titles:
            until(f"{title} of {view}", lambda: figure(title))
        plot = figure("GPUs busy").find_element(By.CSS_SELECTOR, ".plot")
        until("what was drawn", lambda: plot.find_elements(By.CSS_SELECTOR, "path.area"))
        plot.send_keys(Keys.HOME)
        until("a value by the keyboard", lambda: figure("GPUs busy").find_element(By.CSS_SELECTOR, ".tip").is_displayed())
        plot.send_keys(Keys.ESCAPE)
    assert "strip below" in text(".part .legend"), "what the strips are"
    for word in ["running", "queued", "stopped", "failed", "done"]:  # Not by the colour alone.
        until(f"the word {word}", lambda: any(it.text == word for it in browser.find_elements(By.CSS_SELECTOR, ".gantt .row > text")))
    browser.execute_script("document.querySelector('.gantt a[href=\"#/jobs/2\"]').focus()")
    until("a job by the keyboard", lambda: "busy of them" in text(".gantt .tip"))
    before = one(".gantt svg").id
    until("drawn anew", lambda: one(".gantt svg").id != before)
    assert browser.switch_to.active_element.get_attribute("aria-label") == "transformer, failed", "the focus stays"
    go("jobs/1")
    until("the use of CPUs", lambda: figure("CPUs in use"))
    assert not figure("GPUs busy"), "a job without GPUs"


def compare():
    go("compare")
    until("the three that were chosen", lambda: len(browser.find_elements(By.CSS_SELECTOR, "main tbody tr")) == 3)
    assert "queued" in text("main tbody"), "one of them has no curve yet"


def look_at_each_view(theme, kind):
    size(kind)
    browser.execute_script("localStorage.setItem('theme', arguments[0])", theme)
    browser.refresh()
    for view in VIEWS:
        go(view)
        until(f"the view {view}", lambda: text("h1") and not one(".empty[role=alert]") and one("main > *:nth-child(2)"))
        until(f"charts of {view}", lambda: all(it.get_attribute("width") for it in browser.find_elements(By.CSS_SELECTOR, ".plot > svg")))
        width = browser.execute_script("return document.documentElement.scrollWidth")
        assert width <= SIZES[kind][0], f"{view} is {width} wide on {kind}"
        if view == "jobs":
            assert one("main tbody .why").is_displayed(), f"why a job waits or has failed, on {kind}"
        assert browser.execute_script("return getComputedStyle(document.body).colorScheme || getComputedStyle(document.documentElement).colorScheme") in (theme, "normal"), theme
        if pictures:
            time.sleep(0.7)
            size(kind, min(2600, browser.execute_script("return Math.max(innerHeight, document.documentElement.scrollHeight)")))
            time.sleep(0.5)
            browser.save_screenshot(f"{pictures}/{view.replace('/', '-')}-{theme}-{kind}.png")
            size(kind)


options = webdriver.ChromeOptions()
for it in ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={sys.argv[2]}/profile"]:
    options.add_argument(it)
options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
browser = webdriver.Chrome(service=Service("/usr/bin/chromedriver"), options=options)
try:
    size("desk")
    browser.get(link)
    if sys.argv[3] == "stop":
        stop_a_job()
    else:
        look_at_lists()
        look_at_a_live_curve()
        ask_for_a_stop()
        look_at_gpus()
        compare()
        for theme in ["light", "dark"]:
            for kind in SIZES:
                look_at_each_view(theme, kind)
    # 404 and 503 are answers; what the policy forbids, and exceptions, are not.
    wrong = [it for it in browser.get_log("browser") if it["level"] == "SEVERE" and "Failed to load resource" not in it["message"]]
    assert not wrong, wrong
    print(f"seen: {sys.argv[3]}")
finally:
    browser.quit()
