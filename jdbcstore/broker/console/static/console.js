// Every page works without this script. It refreshes live pages, reports a lost broker, and adds a key
// and a checkbox.
"use strict";

const PERIOD = 4000;
const SHARE = 0.007; // of a core of the broker, for the refreshes of a page; its state takes less than the rest of 1 %
const PATIENCE = 10000;
const live = document.getElementById("live");
const title = document.title;
let isRenewing = false;
let nextWhole = 0; // when the content may be requested again

function isBusy() {
  const at = document.activeElement;
  const isTyping = at && at.closest("#main") && /^(INPUT|TEXTAREA|SELECT)$/.test(at.tagName);
  const isFilled = (one) => (one.type === "checkbox" ? one.checked : one.value !== one.defaultValue);
  return isTyping || [...document.querySelectorAll("#main input")].some(isFilled);
}

// Marks the page as outdated, with the reason; its content stays readable.
function fail(reason, text) {
  const state = document.getElementById("state");
  const pill = state.querySelector(".pill");
  pill.className = "pill bad";
  pill.textContent = reason;
  document.title = `(${reason}) ${title}`;
  document.body.classList.add("stale");
  const shown = document.createElement("p");
  shown.className = "bad";
  shown.textContent = `${text} This page is ${state.querySelector("time").textContent}. `;
  const again = document.createElement("a");
  again.href = location.href;
  again.textContent = "Reload";
  shown.append(again);
  const banner = document.getElementById("banner");
  if (banner.textContent !== shown.textContent) banner.replaceChildren(shown);
}

async function renew() {
  if (isRenewing || document.hidden) return;
  const isLive = () => live.checked && document.querySelector("main[data-live]") && !isBusy();
  const isWhole = isLive() && performance.now() >= nextWhole; // otherwise only the state is requested
  const root = document.querySelector(".brand").href;
  isRenewing = true;
  try {
    const signal = AbortSignal.timeout(PATIENCE);
    const headers = { "X-Requested-By": "console" };
    const url = isWhole ? location.href.split("#")[0] : `${root}/state`;
    const answer = await fetch(url, { credentials: "same-origin", headers, signal });
    const cost = /cpu;dur=([\d.]+)/.exec(answer.headers.get("Server-Timing") ?? "");
    if (isWhole && cost) nextWhole = performance.now() + Number(cost[1]) / SHARE;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (answer.status === 401) return fail("logged out", "Your login has expired.");
    if (answer.status === 403) return fail("not allowed", "You no longer have access to this page.");
    if (!page.getElementById("state")) return fail(`error ${answer.status}`, `The broker answers with error ${answer.status}.`);
    if (named(page) !== named(document)) return fail("another broker", "Another broker now answers at this address.");
    const isShown = isWhole && isLive();
    showState(page, isShown);
    if (isShown) show(document.getElementById("main"), page.getElementById("main"));
  } catch {
    fail("no answer", "The connection to the broker is lost.");
  } finally {
    isRenewing = false;
  }
}

function named(page) {
  return page.getElementById("broker").textContent;
}

// The role and the banner are always current; the time is the content's.
function showState(page, isWhole) {
  const [state, now] = [document, page].map((one) => one.getElementById("state"));
  if (isWhole) state.replaceChildren(...now.childNodes);
  else state.querySelector(".pill").replaceWith(now.querySelector(".pill"));
  const [banner, renewed] = [document, page].map((one) => one.getElementById("banner"));
  if (banner.textContent !== renewed.textContent) banner.replaceChildren(...renewed.childNodes);
  document.body.classList.remove("stale");
  document.title = title;
}

function show(main, renewed) {
  const focused = document.activeElement;
  const href = focused && main.contains(focused) ? focused.getAttribute("href") : null;
  const notice = main.querySelector(".notice");
  const scrolled = [...main.querySelectorAll(".table")].map((one) => one.scrollLeft);
  main.replaceChildren(...(notice ? [notice] : []), ...renewed.childNodes);
  main.querySelectorAll(".table").forEach((one, at) => { one.scrollLeft = scrolled[at] || 0; });
  prepare();
  if (href) [...main.querySelectorAll("a")].find((one) => one.getAttribute("href") === href)?.focus({ preventScroll: true });
}

// Times are in UTC, as in logs; the local time is beside them, or under the pointer.
function showLocalTimes() {
  for (const one of document.querySelectorAll("#main time[datetime]")) {
    const at = new Date(one.dateTime);
    if (isNaN(at)) continue;
    const local = at.toLocaleString([], { dateStyle: "medium", timeStyle: "medium" });
    one.title = `${local} here`;
    if ("beside" in one.dataset) one.parentNode.append(` (${local} here)`);
  }
}

// Under the pointer, and with the arrow keys, a chart shows values and their times.
function readCharts() {
  for (const figure of document.querySelectorAll("#main .chart[data-points]")) {
    const svg = figure.querySelector("svg");
    if (!svg) continue;
    const { points, labels, interval, end } = figure.dataset;
    const lines = JSON.parse(points);
    const last = lines[0].length - 1;
    let at = last + 1;
    const show = (to) => {
      at = Math.max(0, Math.min(last, to));
      const time = new Date(Number(end) - (last - at) * interval * 1000).toISOString();
      const values = labels.split(",").map((label, line) => `${label} ${lines[line][at] ?? "–"}`);
      figure.querySelector(".hover").textContent = `${time.slice(5, 10)} ${time.slice(11, 19)} UTC: ${values.join(", ")}`;
      svg.querySelector(".at").setAttribute("d", `M${(640 * at) / (last || 1)} 0V160`);
    };
    svg.addEventListener("pointermove", (event) => {
      const box = svg.getBoundingClientRect();
      show(Math.round(((event.clientX - box.left) / box.width) * last));
    });
    svg.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!step) return;
      event.preventDefault();
      show(at + step);
    });
  }
}

function prepare() {
  showLocalTimes();
  readCharts();
  const all = document.querySelector("[data-all]");
  if (!all) return;
  all.hidden = false;
  all.addEventListener("change", () => {
    for (const one of document.querySelectorAll("#main input[name=id]")) one.checked = all.checked;
  });
}

document.addEventListener("keydown", (event) => {
  const isTyping = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName);
  const search = document.querySelector("[data-search]");
  if (event.key === "/" && search && !isTyping && !event.ctrlKey && !event.metaKey && !event.altKey) {
    event.preventDefault();
    search.focus();
  }
});

// After an operation or Cancel, the focus returns to the element that opened it.
const here = new URL(location.href);
here.searchParams.delete("notice");
const place = `at ${here.pathname}${here.search}`;
const led = (one) => one && (one.getAttribute("href") || one.getAttribute("formaction"));
if (location.href !== here.href) history.replaceState(null, "", here);

function comeBack() {
  if (!sessionStorage.getItem("left")?.includes("/do/")) return;
  const [scrolled, to] = JSON.parse(sessionStorage.getItem(place) ?? "[0]");
  scrollTo(0, scrolled);
  if (to) [...document.querySelectorAll("#main a, #main button")].find((one) => led(one) === to)?.focus({ preventScroll: true });
}

addEventListener("pagehide", () => {
  sessionStorage.setItem("left", location.pathname);
  sessionStorage.setItem(place, JSON.stringify([scrollY, led(document.activeElement)]));
});

prepare();
if (!here.pathname.includes("/do/")) comeBack();
document.querySelector("nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
if (live) {
  if (document.querySelector("main[data-live]")) document.getElementById("clock").hidden = false;
  setInterval(renew, PERIOD);
  document.addEventListener("visibilitychange", renew);
}
