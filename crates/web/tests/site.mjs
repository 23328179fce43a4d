// The documentation site for users of assistive technology, at the widths of phones, tablets and desks, in
// light and dark colours: `make test-site`.
//
// The environment names the site (SITE), the packages of npm (MODULES) and the browser (CHROMIUM).

import assert from "node:assert/strict";
import fs from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { after, before, test } from "node:test";
import { hosting } from "./service.mjs";

const { SITE, MODULES, CHROMIUM = "/usr/bin/chromium" } = process.env;
const require = createRequire(`${path.resolve(MODULES)}/`);
const { chromium } = require("playwright-core");
const AXE = fs.readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

/** Where pictures of pages are kept for a person to look at. */
const PICTURES = path.join(path.resolve(MODULES), "site");
const WIDTHS = [360, 768, 1440];
const COLOURS = ["light", "dark"];
/** Pages of each kind, which are looked at in every width and in all colours. */
const SEEN = ["/", "/start/table/", "/tutorials/browser/", "/costs/", "/api/statistics/", "/commands/"];

let host, browser;

before(async () => {
  host = await hosting(path.resolve(SITE));
  browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox"] });
});

after(async () => {
  await browser?.close();
  host?.close();
});

/** Returns the addresses of all pages. */
function pages() {
  const found = fs.readdirSync(SITE, { recursive: true }).filter((name) => path.basename(name) === "index.html");
  return found.map((name) => `/${path.dirname(name)}/`.replace("/./", "/")).sort();
}

/** Returns the problems of a page, each with its rule and the first elements. */
async function problems(tab, address, width, colorScheme) {
  await tab.emulateMedia({ colorScheme, reducedMotion: "reduce" });
  await tab.setViewportSize({ width, height: 900 });
  const answer = await tab.goto(host.address + address);
  assert.equal(answer.status(), 200, address);
  await tab.evaluate(AXE);
  const { violations } = await tab.evaluate(() => globalThis.axe.run());
  const beyond = await tab.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  const where = `${address} at ${width} in ${colorScheme}`;
  return [
    ...(beyond > 0 ? [`${where}: ${beyond} pixels too wide`] : []),
    ...violations.map(({ id, nodes }) =>
      `${where}: ${id}, ${nodes.length} times: ${nodes.slice(0, 2).map(({ html }) => html.slice(0, 160)).join(" ")}`),
  ];
}

test("pages of each kind are accessible at all widths and in all colours", async () => {
  fs.mkdirSync(PICTURES, { recursive: true });
  const tab = await browser.newPage();
  const found = [];
  for (const address of SEEN) {
    for (const width of WIDTHS) {
      for (const colours of COLOURS) {
        found.push(...await problems(tab, address, width, colours));
        const name = address.replaceAll("/", "-").replace(/^-|-$/g, "") || "first";
        await tab.screenshot({ path: path.join(PICTURES, `${name}-${width}-${colours}.png`) });
      }
    }
  }
  assert.deepEqual(found, []);
});

for (const [width, colours] of [[WIDTHS[0], "dark"], [WIDTHS.at(-1), "light"]]) {
  test(`every page is accessible at a width of ${width} in ${colours} colours`, async (t) => {
    const tab = await browser.newPage();
    const found = [];
    for (const address of pages()) found.push(...await problems(tab, address, width, colours));
    t.diagnostic(`${pages().length} pages`);
    assert.deepEqual(found, []);
  });
}

test("problems are found", async () => {
  const tab = await browser.newPage();
  await tab.setContent('<html lang="en"><title>t</title><main><h1>a</h1><p style="color:#bbb">faint</p></main></html>');
  await tab.evaluate(AXE);
  const { violations } = await tab.evaluate(() => globalThis.axe.run());
  assert.deepEqual(violations.map(({ id }) => id), ["color-contrast"]);
});
