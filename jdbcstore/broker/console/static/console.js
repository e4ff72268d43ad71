// Every page works without this script: it renews live pages, and adds a key and a checkbox.
"use strict";

const PERIOD = 5000;
const live = document.getElementById("live");

function isBusy() {
  const at = document.activeElement;
  const isTyping = at && at.closest("#main") && /^(INPUT|TEXTAREA|SELECT)$/.test(at.tagName);
  const isFilled = (one) => (one.type === "checkbox" ? one.checked : one.value !== one.defaultValue);
  return isTyping || document.hidden || [...document.querySelectorAll("#main input")].some(isFilled);
}

async function renew() {
  const main = document.getElementById("main");
  if (!live.checked || isBusy()) return;
  const answer = await fetch(location.href.split("#")[0], { credentials: "same-origin" });
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const renewed = page.getElementById("main");
  if (!answer.ok || !renewed || isBusy()) return;
  const focused = document.activeElement;
  const href = focused && main.contains(focused) ? focused.getAttribute("href") : null;
  const scrolled = [...main.querySelectorAll(".table")].map((one) => one.scrollLeft);
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
  setInterval(() => { renew().catch(() => {}); }, PERIOD);
}
