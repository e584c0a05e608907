# browser.py TOOL WORK [PICTURES]: makes up sweeps in WORK, has TOOL (troupe) report them, and opens the pages in light
# and dark, on a desktop and a phone: nothing is said on the console, nothing is wider than the page, points are read
# by keyboard, axes are narrowed, the table sorts and finds, and 10,000 trials open quickly.
import json
import math
import os
import random
import subprocess
import sys
import time

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

tool, work = sys.argv[1:3]
pictures = sys.argv[3] if len(sys.argv) > 3 else None

SPACE = {"rate": {"log_uniform": [1e-4, 1]}, "width": {"integer": [16, 1024], "log": True},
         "optimizer": {"choice": ["sgd", "adam", "lion"]}, "dropout": {"uniform": [0, 0.6]},
         "momentum": {"uniform": [0, 1], "when": {"optimizer": ["sgd"]}}, "epochs": 27}
BEST_RATE = {"sgd": -1, "adam": -2.4, "lion": -3}


def draw(chance, good):
    if good and chance.random() < 0.6:
        params = dict(chance.choice(good)[1])
        params["rate"] = min(1, max(1e-4, params["rate"] * 10 ** chance.gauss(0, 0.25)))
        params["width"] = min(1024, max(16, int(params["width"] * 2 ** chance.gauss(0, 0.6))))
        params["dropout"] = round(min(0.6, max(0, params["dropout"] + chance.gauss(0, 0.08))), 3)
        return params
    params = {"rate": 10 ** chance.uniform(-4, 0), "width": round(2 ** chance.uniform(4, 10)),
              "optimizer": chance.choice(list(BEST_RATE)), "dropout": round(chance.uniform(0, 0.6), 3), "epochs": 27}
    if params["optimizer"] == "sgd":
        params["momentum"] = chance.random()
    return params


def loss_of(params):
    loss = 0.06 + 0.12 * (math.log10(params["rate"]) - BEST_RATE[params["optimizer"]]) ** 2
    loss += 0.02 * abs(math.log2(params["width"]) - 8) + 0.15 * (params["dropout"] - 0.2) ** 2
    return loss + 0.1 * (params.get("momentum", 0.9) - 0.9) ** 2


def make(name, trials, reports=27, two=False):
    folder = f"{work}/{name}"
    os.mkdir(folder)
    chance, good, rungs = random.Random(7), [], {3: [], 9: []}
    with open(f"{folder}/trials.jsonl", "w", encoding="utf-8") as out:
        def say(**line):
            out.write(json.dumps(line) + "\n")
        say(event="sweep", trainer="fit", metric="loss", goal="minimize", trials=trials, seed=7, scheduler="ASHA",
            **({"objectives": {"loss": "minimize", "samples/s": "maximize"}} if two else {}))
        say(event="study", space=SPACE, goals=["minimize"] + ["maximize"] * two, searcher="TPE", scheduler="ASHA")
        for trial in range(trials):
            params = draw(chance, good if trial > trials * 0.3 else None)
            end, state, values = loss_of(params), "TERMINATED", None
            say(event="suggest", trial=trial, x=[], params=params)
            fails = trial % 41 == 17
            for report in range(1, reports + 1):
                loss = end + 1.9 * math.exp(-report / 4) * (0.6 + end) + chance.gauss(0, 0.004)
                values = [loss] + [9000 / params["width"] ** 0.4 * chance.uniform(0.9, 1.1)] * two
                say(event="report", trial=trial, name=f"fit_3d3d1_{trial:05d}", number=report, values=values,
                    elapsed_s=0.02 * report * (1 + params["width"] / 500))
                if report in rungs:
                    rungs[report].append(loss)
                    if loss > sorted(rungs[report])[int(len(rungs[report]) * 0.45)]:
                        state = "STOPPED"
                if fails and report == 4:
                    state = "ERROR"
                if state != "TERMINATED":
                    break
            say(event="end", trial=trial, state=state, values=values, **({"error": "rank 0 ended by SIGSEGV"} if state == "ERROR" else {}))
            if state == "TERMINATED":
                good = sorted(good + [(end, params)], key=lambda it: it[0])[:20]
    subprocess.run([tool, "tune", "report", folder], check=True, stdout=subprocess.DEVNULL)
    return f"file://{folder}/report.html"


def browser():
    options = webdriver.ChromeOptions()
    for flag in ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                 f"--user-data-dir={work}/browser"]:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))


def look(driver, theme, width, height=900):
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia",
                           {"features": [{"name": "prefers-color-scheme", "value": theme}]})
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                           {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600})


def check(truth, what):
    if not truth:
        print(what)
        sys.exit(1)


def text(driver, selector):
    return driver.find_element(By.CSS_SELECTOR, selector).text


def opened(driver, page, name, theme, size):
    width = 1280 if size == "desk" else 390
    look(driver, theme, width)
    driver.get(page)
    time.sleep(0.5)
    wide = driver.execute_script("return document.documentElement.scrollWidth")
    check(wide <= width, f"{name}, {theme}, {size}: the page is {wide} wide")
    said = [it["message"] for it in driver.get_log("browser")]
    check(not said, f"{name}: the console has {said}")
    if pictures:
        height = driver.execute_script("return document.getElementById('trials').getBoundingClientRect().top") + 500
        look(driver, theme, width, int(height))
        time.sleep(0.5)
        driver.save_screenshot(f"{pictures}/{name}-{theme}-{size}.png")
        look(driver, theme, width)


def by_keyboard(driver):
    place = driver.find_element(By.ID, "plot-history")
    driver.execute_script("arguments[0].focus()", place)
    place.send_keys(Keys.END)
    check(text(driver, "#plot-history .tip").startswith("Trial 119"), "the last point of the history is trial 119")
    place.send_keys(Keys.ARROW_LEFT)
    check(text(driver, "#plot-history .tip").startswith("Trial 11"), "an arrow key leads to the point before")
    all_trials = text(driver, "#table-count")
    check(all_trials == "120 trials", f"the table has '{all_trials}'")
    handle = driver.find_elements(By.CSS_SELECTOR, "#plot-parallel [role=slider]")[0]
    check(handle.get_attribute("aria-label").endswith(", from"), "the first slider is an axis's lower end")
    handle.send_keys(Keys.PAGE_UP, Keys.PAGE_UP, Keys.PAGE_UP)
    check(handle.get_attribute("aria-valuenow") == "60", "it is at 60 of 100")
    some = int(text(driver, "#table-count").split()[0])
    check(0 < some < 119, f"{some} trials are within it")
    handle.send_keys(Keys.ESCAPE)
    check(text(driver, "#table-count") == all_trials, "Escape lets all through again")


def by_table(driver):
    def first():
        return text(driver, "#trials tbody tr:first-child th")
    best = text(driver, ".tiles small").split()[-1]
    check(first() == f"{best} \u2605", f"the best trial is the first row: {first()}")
    heads = {it.text: it for it in driver.find_elements(By.CSS_SELECTOR, "#trials thead th button")}
    heads["Trial"].click()
    check(first().startswith("0"), "sorted by number, trial 0 is the first")
    heads["Trial"].click()
    check(first().startswith("119"), "the other way round it is trial 119")
    driver.find_element(By.ID, "find").send_keys("optimizer=lion segv")
    rows = driver.find_elements(By.CSS_SELECTOR, "#trials tbody tr")
    found = [it.text for it in rows]
    check(all("ERROR" in it and "lion" in it for it in found), f"found are {found}")
    before = driver.execute_script("return document.querySelector('#plot-history .step').getAttribute('d')")
    driver.find_element(By.ID, "scale-log").click()
    after = driver.execute_script("return document.querySelector('#plot-history .step').getAttribute('d')")
    check(before != after, "a logarithmic scale draws something else")


page, two, large = make("sweep", 120), make("two", 150, two=True), make("large", 10000, reports=2)
driver = browser()
try:
    for name, it in [("sweep", page), ("two", two)]:
        for theme in ["light", "dark"]:
            for size in ["desk", "phone"]:
                opened(driver, it, name, theme, size)
    check(driver.find_elements(By.CSS_SELECTOR, "#plot-front svg .step"), "two objectives have a front")
    look(driver, "light", 1280)
    driver.get(page)
    drawn = driver.find_elements(By.CSS_SELECTOR, "main svg")
    check(len(drawn) == 4 + 5, f"{len(drawn)} drawings")
    by_keyboard(driver)
    by_table(driver)
    check(not driver.get_log("browser"), "the console stays empty")
    began = time.monotonic()
    driver.get(large)
    driver.find_element(By.CSS_SELECTOR, "#trials tbody tr")
    took = time.monotonic() - began
    print(f"10,000 trials are there after {took:.2f} s")
    check(took < 5, "that is slow")
finally:
    driver.quit()
