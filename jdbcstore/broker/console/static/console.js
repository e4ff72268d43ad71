// Every page works without this script: it renews live pages, and adds a key and a checkbox.
"use strict";

const PERIOD = 5000;
const PATIENCE = 10000;
const live = document.getElementById("live");
let isRenewing = false;

function isBusy() {
  const at = document.activeElement;
  const isTyping = at && at.closest("#main") && /^(INPUT|TEXTAREA|SELECT)$/.test(at.tagName);
  const isFilled = (one) => (one.type === "checkbox" ? one.checked : one.value !== one.defaultValue);
  return isTyping || document.hidden || [...document.querySelectorAll("#main input")].some(isFilled);
}

// Says that the page is old, and why; what it shows stays readable.
function fail(reason) {
  const state = document.getElementById("state");
  const asOf = state.querySelector("time");
  const pill = state.querySelector(".pill");
  pill.className = "pill bad";
  pill.textContent = reason;
  if (document.getElementById("stale")) return;
  const text = document.createElement("p");
  text.id = "stale";
  text.className = "error";
  text.setAttribute("role", "alert");
  text.textContent = `The broker does not answer (${reason}). This page is ${asOf.textContent} UTC.`;
  document.getElementById("main").prepend(text);
}

async function renew() {
  const main = document.getElementById("main");
  if (isRenewing || !live.checked || isBusy()) return;
  isRenewing = true;
  try {
    const signal = AbortSignal.timeout(PATIENCE);
    const answer = await fetch(location.href.split("#")[0], { credentials: "same-origin", signal });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const [renewed, state] = ["main", "state"].map((id) => page.getElementById(id));
    if (!renewed || !state) return fail(`error ${answer.status}`);
    if (isBusy()) return;
    show(main, renewed, state);
  } catch {
    fail("no answer");
  } finally {
    isRenewing = false;
  }
}

function show(main, renewed, state) {
  const focused = document.activeElement;
  const href = focused && main.contains(focused) ? focused.getAttribute("href") : null;
  const scrolled = [...main.querySelectorAll(".table")].map((one) => one.scrollLeft);
  document.getElementById("state").replaceChildren(...state.childNodes);
  main.replaceChildren(...renewed.childNodes);
  main.querySelectorAll(".table").forEach((one, at) => { one.scrollLeft = scrolled[at] || 0; });
  prepare();
  if (href) [...main.querySelectorAll("a")].find((one) => one.getAttribute("href") === href)?.focus({ preventScroll: true });
}

function prepare() {
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

prepare();
document.querySelector("nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
if (live && document.querySelector("main[data-live]")) {
  document.getElementById("clock").hidden = false;
  setInterval(renew, PERIOD);
}
