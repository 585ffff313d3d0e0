// Keeps a page up to date: the server says that something changed, the page is fetched anew, and the parts that differ are replaced.
// Without this script every page works by links and forms.

const parts = "[data-live]";

// The one place where text becomes markup: a page of this server, which escapes all that comes from elsewhere. Scripts in it do not run.
const policy = globalThis.trustedTypes?.createPolicy("takt-page", { createHTML: (text) => text }) ?? { createHTML: (text) => text };
const parse = (text) => new DOMParser().parseFromString(policy.createHTML(text), "text/html");

// How long after one look the next one begins at the earliest, longer on a server that is slow to answer, and how often a page that shows a running time looks by itself.
const pause = 100;
const tick = 5000;

let looking = false;
let again = false;

// A form was sent: its answer comes as a page, which loading this one anew would break off.
let leaving = false;
addEventListener("submit", () => (leaving = true));

// A click begins and ends on the same element: nothing is replaced meanwhile.
let released = Promise.resolve();
const press = () => {
  released = new Promise((up) => {
    for (const end of ["pointerup", "pointercancel"]) addEventListener(end, () => setTimeout(up), { once: true, capture: true });
  });
};
addEventListener("pointerdown", press, true);

function lost(is) {
  const note = document.getElementById("lost");
  if (note.hidden === is) note.hidden = !is;
}

// mark finds the element with the focus again after its part was replaced.
function mark(element) {
  if (element.id) return (part) => part.querySelector("#" + CSS.escape(element.id));
  const link = element.getAttribute("href");
  const text = element.textContent;
  return (part) => [...part.querySelectorAll(element.localName)].find((e) => e.getAttribute("href") === link && e.textContent === text);
}

function replace(old, fresh) {
  if (old.isEqualNode(fresh)) return;
  const active = document.activeElement;
  const find = old !== active && old.contains(active) ? mark(active) : null;
  const scrolled = [...old.querySelectorAll(".scroll")].map((e) => [e.scrollLeft, e.scrollTop]);
  old.replaceChildren(...document.adoptNode(fresh).childNodes);
  old.querySelectorAll(".scroll").forEach((e, i) => {
    if (scrolled[i]) [e.scrollLeft, e.scrollTop] = scrolled[i];
  });
  find?.(old)?.focus({ preventScroll: true });
}

async function look() {
  if (looking) {
    again = true;
    return;
  }
  looking = true;
  const began = performance.now();
  try {
    const answer = await fetch(location.href, { cache: "no-store" });
    const page = parse(await answer.text());
    await released;
    // Another kind of page stands here now, such as one that could not be shown before.
    const ids = (d) => [...d.querySelectorAll("main " + parts)].map((e) => e.id).join();
    if (ids(page) !== ids(document)) {
      if (!leaving) location.reload();
      return;
    }
    for (const old of document.querySelectorAll(parts)) {
      const fresh = page.getElementById(old.id);
      if (fresh) replace(old, fresh);
    }
    lost(false);
  } catch {
    lost(true);
  }
  setTimeout(() => {
    looking = false;
    if (again) {
      again = false;
      look();
    }
  }, Math.max(pause, 2 * (performance.now() - began)));
}

// On a narrow screen the pages stand in a row that is wider than it: this one is seen.
document.querySelector("nav [aria-current=page]")?.scrollIntoView({ block: "nearest", inline: "center" });

const address = document.body.dataset.events;
let events = null;

// A browser has few connections to one server, and a page that is not seen needs none.
function follow() {
  const seen = document.visibilityState === "visible";
  if (seen === (events !== null)) return;
  if (!seen) {
    events.close();
    events = null;
    return;
  }
  let was = true;
  events = new EventSource(address);
  events.addEventListener("change", look);
  events.addEventListener("open", () => {
    if (!was) look();
    was = true;
  });
  events.addEventListener("error", () => {
    was = false;
    lost(true);
    if (events.readyState === EventSource.CLOSED) look(); // refused: the session is over, and the page leads to the form
  });
}

if (address) {
  follow();
  document.addEventListener("visibilitychange", follow);
  addEventListener("pagehide", () => events?.close());
  addEventListener("pageshow", (event) => {
    if (event.persisted) location.reload();
  });
}
if ("ticks" in document.body.dataset) {
  setInterval(() => {
    if (document.visibilityState === "visible") look();
  }, tick);
}
